// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise/body.hpp"

namespace floodtide::kernels::pointwise {

const Kernels kGeneric = kernels_of<Blocks<4>>;

}  // namespace floodtide::kernels::pointwise
