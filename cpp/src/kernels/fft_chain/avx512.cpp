// SPDX-License-Identifier: Apache-2.0
#include "kernels/fft_chain/body.hpp"

#if !defined(__AVX512F__) && !defined(FLOODTIDE_EMULATED)
#error "compile this file for its instruction set"
#endif

namespace floodtide::kernels::fft {

// 28 of 32 registers hold sums.
const Kernels kAvx512 = kernels_of<Blocks<16, 14, 32>>;

}  // namespace floodtide::kernels::fft
