// SPDX-License-Identifier: Apache-2.0
// File names from Python, as text or bytes. A text may stand for a name that is not UTF-8 (os.fsdecode).
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
    object encoded = reinterpret_borrow<object>(source);
    if (PyUnicode_Check(source.ptr()) != 0) {
      encoded = reinterpret_steal<object>(PyUnicode_EncodeFSDefault(source.ptr()));
      if (!encoded) {
        PyErr_Clear();
        return false;
      }
    }
    make_caster<std::string> caster;
    if (!caster.load(encoded, convert)) return false;
    value.text = cast_op<std::string&&>(std::move(caster));
    return true;
  }
};

}  // namespace pybind11::detail
