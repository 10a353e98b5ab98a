// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/specification.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

template <class Items, class Name>
std::string joined(const Items& items, Name name_of) {
  std::string list;
  for (const auto& item : items) list += (list.empty() ? "" : ", ") + name_of(item);
  return list.empty() ? "none" : list;
}

void check_number(const std::string& where, const ParameterSpec& spec, double value) {
  const bool whole = std::isfinite(value) && std::floor(value) == value;
  FLOODTIDE_REQUIRE(spec.kind == ValueKind::real || whole, invalid_argument, where, " is ", value, ", expected a whole number");
  if (spec.kind == ValueKind::boolean) {
    FLOODTIDE_REQUIRE(value == 0 || value == 1, invalid_argument, where, " is ", value, ", expected true or false");
    return;
  }
  require_in(spec.limits, value, where);
}

template <class T>
const T& value_of(const ParameterValues& values, std::string_view name) {
  const auto found = values.find(name);
  FLOODTIDE_REQUIRE(found != values.end(), internal, "parameters: no value '", name, "'");
  return std::get<T>(found->second);
}

}  // namespace

ParameterValues resolve(std::string_view what, std::span<const ParameterSpec> specs, const ParameterValues& given) {
  ParameterValues values;
  for (const ParameterSpec& spec : specs) values.emplace(spec.name, spec.standard);
  for (const auto& [key, value] : given) {
    const auto spec = std::ranges::find(specs, key, &ParameterSpec::name);
    FLOODTIDE_REQUIRE(spec != specs.end(), invalid_argument, what, ": there is no parameter '", key,
                      "'; expected one of: ", joined(specs, [](const ParameterSpec& one) { return one.name; }));
    const std::string where = str_cat(what, ": ", key);
    if (spec->kind == ValueKind::text) {
      const auto* string = std::get_if<std::string>(&value);
      FLOODTIDE_REQUIRE(string != nullptr, invalid_argument, where, " is a number, expected a text");
      FLOODTIDE_REQUIRE(spec->choices.empty() || std::ranges::find(spec->choices, *string) != spec->choices.end(),
                        invalid_argument, where, " is '", *string,
                        "', expected one of: ", joined(spec->choices, [](const std::string& one) { return one; }));
    } else {
      const auto* real = std::get_if<double>(&value);
      FLOODTIDE_REQUIRE(real != nullptr, invalid_argument, where, " is the text '", std::get<std::string>(value),
                        "', expected a number");
      check_number(where, *spec, *real);
    }
    values[key] = value;
  }
  return values;
}

double number(const ParameterValues& values, std::string_view name) { return value_of<double>(values, name); }

std::string text(const ParameterValues& values, std::string_view name) { return value_of<std::string>(values, name); }

}  // namespace floodtide
