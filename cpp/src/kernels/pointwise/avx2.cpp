// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise/body.hpp"

namespace floodtide::kernels::pointwise {

const Kernels kAvx2 = kernels_of<Blocks<8>>;

}  // namespace floodtide::kernels::pointwise
