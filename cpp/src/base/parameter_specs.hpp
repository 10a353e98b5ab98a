// SPDX-License-Identifier: Apache-2.0
// Specifications of parameters by kind, for the registries of components.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "floodtide/base/specification.hpp"

namespace floodtide {

inline ParameterSpec real(std::string name, double standard, std::string help, Limits limits, std::string unit = "") {
  return {std::move(name), ValueKind::real, standard, std::move(unit), std::move(help), limits};
}
inline ParameterSpec integer(std::string name, double standard, std::string help, Limits limits, std::string unit = "") {
  return {std::move(name), ValueKind::integer, standard, std::move(unit), std::move(help), limits};
}
inline ParameterSpec boolean(std::string name, std::string help) {
  return {std::move(name), ValueKind::boolean, 0.0, "", std::move(help)};
}
inline ParameterSpec choice(std::string name, std::string standard, std::string help, std::vector<std::string> choices) {
  return {std::move(name), ValueKind::text, std::move(standard), "", std::move(help), {}, std::move(choices)};
}

}  // namespace floodtide
