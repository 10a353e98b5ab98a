// SPDX-License-Identifier: Apache-2.0
// The source of the AVX-512 kernels, compiled for the baseline processor. GCC emulates 512-bit vectors with narrower vectors.
// This code runs on every machine, so that block sizes and remainders of this level are tested on processors without AVX-512.
#define FLOODTIDE_EMULATED
#pragma GCC diagnostic ignored "-Wpsabi"  // no stable ABI for returning such vectors; only this file calls these functions
#define kAvx512 kAvx512Emulated
#define kAvx512Narrow kAvx512NarrowEmulated
#include "kernels/conv3d/avx512.cpp"     // NOLINT(bugprone-suspicious-include)
#include "kernels/fft_chain/avx512.cpp"  // NOLINT(bugprone-suspicious-include)
