// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "floodtide/base/limits.hpp"

namespace floodtide {

/// What a parameter of a registered component holds. Integers and truth values travel as `double`.
enum class ValueKind { real, integer, boolean, text };

[[nodiscard]] std::string_view name(ValueKind kind) noexcept;

using ParameterValue = std::variant<double, std::string>;
using ParameterValues = std::map<std::string, ParameterValue, std::less<>>;

/// One parameter of a registered component (optimizer, schedule, ...): a row of its configuration, help and documentation.
struct ParameterSpec {
  std::string name;
  ValueKind kind;
  ParameterValue standard;  ///< the default
  std::string unit;         ///< "" for a pure number
  std::string help;
  Limits limits{};                     ///< of numbers
  std::vector<std::string> choices{};  ///< for text; empty: any
};

/// The defaults overlaid with `given`. Throws Error(invalid_argument), naming `what`, for a name that no specification has
/// and for a value of the wrong kind or outside its bounds.
[[nodiscard]] ParameterValues resolve(std::string_view what, std::span<const ParameterSpec> specs,
                                      const ParameterValues& given);

/// The number (or text) of that name in resolved values.
[[nodiscard]] double number(const ParameterValues& values, std::string_view name);
[[nodiscard]] std::string text(const ParameterValues& values, std::string_view name);

}  // namespace floodtide
