// SPDX-License-Identifier: Apache-2.0
#include "kernels/fft_chain/body.hpp"

#if !defined(__AVX2__) || !defined(__FMA__)
#error "compile this file for its instruction set"
#endif

namespace floodtide::kernels::fft {

// 12 of 16 registers hold sums.
const Kernels kAvx2 = kernels_of<Blocks<8, 6, 16>>;

}  // namespace floodtide::kernels::fft
