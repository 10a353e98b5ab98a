// SPDX-License-Identifier: Apache-2.0
// The AVX-512 kernels' own source, compiled for the baseline processor: GCC emulates the 512-bit vectors with narrower ones.
// It runs on every machine, so that block sizes and remainders of that level are tested where the level is missing.
#define FLOODTIDE_EMULATED
#pragma GCC diagnostic ignored "-Wpsabi"  // returning such vectors has no stable ABI here; nothing outside calls these
#define kAvx512 kAvx512Emulated
#include "kernels/conv3d/avx512.cpp"  // NOLINT(bugprone-suspicious-include)
