// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise/dispatch.hpp"

namespace floodtide::kernels::pointwise {

const Kernels& kernels_at(Isa level) noexcept {
#if defined(__x86_64__)
  if (level == Isa::avx512) return kAvx512;
  if (level == Isa::avx2) return kAvx2;
#endif
  static_cast<void>(level);
  return kGeneric;
}

}  // namespace floodtide::kernels::pointwise
