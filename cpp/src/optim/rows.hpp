// SPDX-License-Identifier: Apache-2.0
// Parts of the registries of optimizers, schedules and scaling rules.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/parameter_specs.hpp"
#include "floodtide/base/error.hpp"

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

}  // namespace floodtide::optim
