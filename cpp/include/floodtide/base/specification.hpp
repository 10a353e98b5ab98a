// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "floodtide/base/limits.hpp"
#include "floodtide/base/named.hpp"

namespace floodtide {

/// Type of a parameter of a registered component. Integers and booleans are stored as `double`.
enum class ValueKind { real, integer, boolean, text };

constexpr Names<ValueKind, 4> names_of(ValueKind) {
  return {"kind",
          {{{"real", ValueKind::real},
            {"integer", ValueKind::integer},
            {"boolean", ValueKind::boolean},
            {"text", ValueKind::text}}}};
}

using ParameterValue = std::variant<double, std::string>;
using ParameterValues = std::map<std::string, ParameterValue, std::less<>>;

/// One parameter of a registered component (optimizer, schedule, ...). Configuration, help and documentation are generated from
/// these specifications.
struct ParameterSpec {
  std::string name;
  ValueKind kind;
  ParameterValue standard;  ///< the default
  std::string unit;         ///< "" for a pure number
  std::string help;
  Limits limits{};                     ///< range of a number
  std::vector<std::string> choices{};  ///< allowed texts; empty: any text
};

/// Return the default values, replaced by those in `given`. Throws Error(invalid_argument) for an unknown name, and for a value
/// that has the wrong type or is outside its limits. The message begins with `what`.
[[nodiscard]] ParameterValues resolve(std::string_view what, std::span<const ParameterSpec> specs,
                                      const ParameterValues& given);

/// Return the number, or the text, with this name from resolved values. Throws Error(internal) for an unknown name.
[[nodiscard]] double number(const ParameterValues& values, std::string_view name);
[[nodiscard]] std::string text(const ParameterValues& values, std::string_view name);

}  // namespace floodtide
