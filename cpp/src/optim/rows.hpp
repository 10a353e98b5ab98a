// SPDX-License-Identifier: Apache-2.0
// Parts of the registries of optimizers, schedules and scaling rules.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "floodtide/base/error.hpp"
#include "floodtide/base/specification.hpp"

namespace floodtide::optim {

template <class Row>
const Row& find_row(std::string_view kind, std::span<const Row> rows, std::string_view name) {
  std::string known;
  for (const Row& row : rows) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + row.name;
  }
  raise(ErrorCode::invalid_argument, kind, ": there is no '", name, "'; expected one of: ", known);
}

inline ParameterSpec real(std::string name, double standard, std::string help, Limits limits) {
  return {std::move(name), ValueKind::real, standard, "", std::move(help), limits};
}
inline ParameterSpec boolean(std::string name, std::string help) {
  return {std::move(name), ValueKind::boolean, 0.0, "", std::move(help)};
}
inline ParameterSpec choice(std::string name, std::string standard, std::string help, std::vector<std::string> choices) {
  return {std::move(name), ValueKind::text, std::move(standard), "", std::move(help), {}, std::move(choices)};
}

}  // namespace floodtide::optim
