// SPDX-License-Identifier: Apache-2.0
// Converts the rows of a registry to a Python list of dictionaries.
#pragma once

#include <pybind11/stl.h>

#include <span>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "floodtide/base/specification.hpp"
#include "numbers.hpp"

namespace floodtide::bindings {

/// Return a parameter value as a Python object: booleans and integers become bool and int.
inline py::object to_python(const ParameterSpec& spec, const ParameterValue& value) {
  switch (spec.kind) {
    case ValueKind::text: return py::str(std::get<std::string>(value));
    case ValueKind::boolean: return py::bool_(std::get<double>(value) != 0);
    case ValueKind::integer: return py::int_(static_cast<std::int64_t>(std::get<double>(value)));
    case ValueKind::real: break;
  }
  return py::float_(std::get<double>(value));
}

inline py::list to_list(const std::vector<ParameterSpec>& specs) {
  py::list result;
  for (const ParameterSpec& spec : specs) {
    py::dict row;
    row["name"] = spec.name;
    row["type"] = std::string(name(spec.kind));
    row["default"] = to_python(spec, spec.standard);
    row["unit"] = spec.unit;
    row["help"] = spec.help;
    row["choices"] = spec.choices;
    row["limits"] = dict_of(spec.limits);
    result.append(row);
  }
  return result;
}

template <class Row>
[[nodiscard]] Records rows_with_parameters(std::span<const Row> rows) {
  py::list result;
  for (const Row& row : rows) {
    py::dict entry;
    entry["name"] = row.name;
    entry["help"] = row.help;
    entry["parameters"] = to_list(row.parameters);
    result.append(entry);
  }
  return result;
}

}  // namespace floodtide::bindings
