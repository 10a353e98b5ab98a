// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/base/isa.hpp"
#include "kernels/pointwise/pointwise.hpp"

namespace floodtide::kernels::pointwise {

/// The kernels of a level, or of the highest one below it.
[[nodiscard]] const Kernels& kernels_at(Isa level) noexcept;

}  // namespace floodtide::kernels::pointwise
