// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "floodtide/base/error.hpp"

namespace floodtide {

/// Range of numbers that a setting accepts. Configuration, command line, Python arguments and file attributes are checked
/// against the same ranges. Error messages read "model.depth is 0, expected 1 to 1000". NaN is outside every range.
struct Limits {
  double minimum = -std::numeric_limits<double>::max();
  double maximum = std::numeric_limits<double>::max();
  bool above = false;  ///< the minimum itself is excluded
  bool below = false;  ///< the maximum itself is excluded

  [[nodiscard]] constexpr bool contains(long double value) const noexcept {
    return (above ? value > minimum : value >= minimum) && (below ? value < maximum : value <= maximum);
  }
};

/// Return the range as text: "0 to 1", "above 0 and at most 1", "at least 0", ...
[[nodiscard]] std::string describe(const Limits& limits);

/// Throws Error(code), "`what` is `value`, expected ...", if `value` is outside the range. `what` names the setting.
void require_in(const Limits& limits, double value, std::string_view what, ErrorCode code = ErrorCode::invalid_argument);
void require_in(const Limits& limits, std::int64_t value, std::string_view what, ErrorCode code = ErrorCode::invalid_argument);

/// Return an integer converted to the type T. Throws as require_in if `value` is outside the range or does not fit into T.
template <std::integral T>
[[nodiscard]] T narrow(std::int64_t value, std::string_view what, const Limits& limits = {},
                       ErrorCode code = ErrorCode::invalid_argument) {
  require_in(limits, value, what, code);
  if (!std::in_range<T>(value)) {
    require_in({static_cast<double>(std::numeric_limits<T>::min()), static_cast<double>(std::numeric_limits<T>::max())}, value,
               what, code);
  }
  return static_cast<T>(value);
}

}  // namespace floodtide
