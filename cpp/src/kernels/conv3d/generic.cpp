// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d/direct_body.hpp"

namespace floodtide::kernels::direct {

// 9 (forward) and 12 (backward-weights) of 16 registers hold sums. Without fused multiply-add, products need one more register.
const DirectKernels kGeneric = kernels_of<Blocks<16, 4, 1, 9, 2, 2, 4, false>>;

}  // namespace floodtide::kernels::direct
