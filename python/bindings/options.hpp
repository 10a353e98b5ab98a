// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/stl.h>

#include <string>
#include <type_traits>

#include "bindings.hpp"
#include "floodtide/base/named.hpp"

namespace floodtide::bindings {

/// Binds a struct of options. Its fields are keyword arguments of the constructor, and attributes. Enumerations are the names
/// of their values, and a Vec3 is a tuple.
template <class Struct>
class Options : public py::class_<Struct> {
 public:
  /// @param valid throws if fields do not fit each other
  Options(
      py::module_& m, const char* name, const char* doc, void (*valid)(const Struct&) = [](const Struct&) {})
      : py::class_<Struct>(m, name, doc) {
    this->def(py::init([valid](const py::KWArgs<py::object>& fields) {
      py::object made = py::cast(Struct{});
      for (const auto& [field, value] : fields) py::setattr(made, field, value);
      const auto result = made.cast<Struct>();
      valid(result);
      return result;
    }));
  }

  template <class Field>
  Options& field(const char* name, Field Struct::* member) {
    if constexpr (HasNames<Field>) {
      this->def_property(
          name, [member](const Struct& self) { return std::string(floodtide::name(self.*member)); },
          [member](Struct& self, const std::string& text) { self.*member = named<Field>(text); });
    } else if constexpr (std::is_same_v<Field, Vec3>) {
      this->def_property(
          name, [member](const Struct& self) { return triple_of(self.*member); },
          [member](Struct& self, const Vec3& vector) { self.*member = vector; });
    } else {
      this->def_readwrite(name, member);
    }
    return *this;
  }
};

}  // namespace floodtide::bindings
