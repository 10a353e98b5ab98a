// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/base/isa.hpp"
#include "kernels/pointwise/pointwise.hpp"

namespace floodtide::kernels::pointwise {

/// Return the kernels of a level. The levels `reference` and `generic` use the same kernels.
[[nodiscard]] inline const Kernels& kernels_at(Isa level) noexcept {
#if defined(__x86_64__)
  if (level == Isa::avx512) return kAvx512;
  if (level == Isa::avx2) return kAvx2;
#endif
  static_cast<void>(level);
  return kGeneric;
}

}  // namespace floodtide::kernels::pointwise
