// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise/body.hpp"

namespace floodtide::kernels::pointwise {

const Kernels kAvx512 = kernels_of<Blocks<16>>;

}  // namespace floodtide::kernels::pointwise
