// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/base/isa.hpp"
#include "kernels/pointwise/pointwise.hpp"

namespace floodtide::kernels::pointwise {

/// Return the kernels of a level. The levels `reference` and `generic` use the same kernels.
[[nodiscard]] const Kernels& kernels_at(Isa level) noexcept;

}  // namespace floodtide::kernels::pointwise
