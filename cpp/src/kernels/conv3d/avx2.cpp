// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d/direct_body.hpp"
#include "kernels/conv3d/winograd_body.hpp"

#if !defined(__AVX2__) || !defined(__FMA__)
#error "compile this file for its instruction set"
#endif

namespace floodtide::kernels::direct {

// 11 (forward) and 12 (backward-weights) of 16 registers hold sums.
const DirectKernels kAvx2 = kernels_of<Blocks<16, 8, 1, 11, 2, 2, 4, false>>;
const DirectKernels kAvx2Narrow = kernels_of<Blocks<8, 8, 1, 11, 1, 4, 8, false>>;

}  // namespace floodtide::kernels::direct

namespace floodtide::kernels::winograd {

// 12 of 16 registers hold sums.
const Kernels kAvx2 = kernels_of<Blocks<8, 2, 6, 6, 12, 28>>;

}  // namespace floodtide::kernels::winograd
