// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/isa.hpp"

namespace floodtide {

/// Return the level for a value of FLOODTIDE_ISA. Throws what active_isa() throws.
[[nodiscard]] Isa isa_up_to(std::string_view cap);

/// For tests: active_isa() returns `level` as long as this object exists. No other thread may compute meanwhile.
class IsaScope : Immovable {
 public:
  explicit IsaScope(Isa level);
  ~IsaScope();

 private:
  Isa before_;
};

}  // namespace floodtide
