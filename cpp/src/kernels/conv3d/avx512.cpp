// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d/direct_body.hpp"
#include "kernels/conv3d/winograd_body.hpp"

#if !defined(__AVX512F__) && !defined(FLOODTIDE_EMULATED)
#error "compile this file for its instruction set"
#endif

namespace floodtide::kernels::direct {

// 22 (forward) and 18 (backward-weights) of 32 registers hold sums.
const DirectKernels kAvx512 = kernels_of<Blocks<16, 16, 2, 11, 2, 3, 8, true>>;
// Half registers: 16 (forward) and 24 (backward-weights) of 32 hold sums.
const DirectKernels kAvx512Narrow = kernels_of<Blocks<8, 8, 1, 16, 1, 8, 8, true>>;

}  // namespace floodtide::kernels::direct

namespace floodtide::kernels::winograd {

// 28 (forward) and 22 (backward-weights) of 32 registers hold sums.
const Kernels kAvx512 = kernels_of<Blocks<16, 2, 14, 11, 14, 28>>;

}  // namespace floodtide::kernels::winograd
