// SPDX-License-Identifier: Apache-2.0
// File names from Python: text, or bytes that may not be UTF-8 (os.fsencode).
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

namespace floodtide::bindings {

struct PathName {
  std::string text;
};

}  // namespace floodtide::bindings

namespace pybind11::detail {

template <>
struct type_caster<floodtide::bindings::PathName> {
  PYBIND11_TYPE_CASTER(floodtide::bindings::PathName, const_name("str | bytes"));

  bool load(handle source, bool convert) {
    make_caster<std::string> caster;
    if (!caster.load(source, convert)) return false;
    value.text = cast_op<std::string&&>(std::move(caster));
    return true;
  }
};

}  // namespace pybind11::detail
