// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d/direct_body.hpp"

namespace floodtide::kernels::direct {

// 9 and 12 of 16 registers hold sums; without fused multiply-adds one more is needed for the product.
const DirectKernels kGeneric = kernels_of<Blocks<4, 1, 9, 2, 2, 4, false>>;

}  // namespace floodtide::kernels::direct
