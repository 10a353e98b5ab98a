// SPDX-License-Identifier: Apache-2.0
// Names of Python types for signatures. pybind11 shows a py::object as `object` and a py::dict as `dict`. A Typed object shows
// the text with which it is declared, and tests/scripts/make_stubs.py writes this text into the stubs of the core. A Typed
// object does not check its type: functions check their arguments themselves, with messages for users.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::bindings {

namespace py = pybind11;

template <std::size_t Size>
struct TypeText {
  char text[Size]{};
  consteval TypeText(const char (&value)[Size]) { std::copy_n(value, Size, text); }
};

/// Python object that signatures show as `Name`. `Name` is a Python annotation with full module names.
template <TypeText Name>
class Typed : public py::object {
 public:
  using py::object::object;
  Typed() = default;
  Typed(py::object other) : py::object(std::move(other)) {}
  static bool check_(py::handle /*object*/) { return true; }
};

using AnyArray = Typed<"numpy.typing.NDArray[typing.Any]">;
using FloatArray = Typed<"numpy.typing.NDArray[numpy.float32]">;
using OptionalFloatArray = Typed<"numpy.typing.NDArray[numpy.float32] | None">;
using UInt8Array = Typed<"numpy.typing.NDArray[numpy.uint8]">;
using OptionalUInt8Array = Typed<"numpy.typing.NDArray[numpy.uint8] | None">;
using Int32Array = Typed<"numpy.typing.NDArray[numpy.int32]">;
using Int64Array = Typed<"numpy.typing.NDArray[numpy.int64]">;
using UInt64Array = Typed<"numpy.typing.NDArray[numpy.uint64]">;

using Record = Typed<"dict[str, typing.Any]">;
using Records = Typed<"list[dict[str, typing.Any]]">;
using NamedLimits = Typed<"dict[str, dict[str, float]]">;
using NamedTexts = Typed<"dict[str, str]">;
using Layout = Typed<"list[tuple[str, tuple[int, ...], int]]">;  // name, shape, offset
using Triple = Typed<"tuple[int, int, int]">;
using ProgressCallback = Typed<"collections.abc.Callable[[int, int], object] | None">;

/// Return (name, shape, offset) of each array in the flat buffer of parameters.
inline Layout layout_of(const ParameterLayout& layout) {
  py::list result;
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    result.append(py::make_tuple(entry.name, py::tuple(py::cast(entry.shape)), entry.offset));
  }
  return result;
}

/// Return a vector or shape as a tuple.
inline Triple triple_of(const Vec3& vector) { return py::make_tuple(vector[0], vector[1], vector[2]); }

}  // namespace floodtide::bindings

namespace pybind11::detail {

template <>
struct type_caster<floodtide::Box> {
  PYBIND11_TYPE_CASTER(floodtide::Box, const_name("tuple[tuple[int, int, int], tuple[int, int, int]]"));  // start, size

  bool load(handle source, bool convert) {
    make_caster<std::pair<floodtide::Vec3, floodtide::Vec3>> pair;
    if (!pair.load(source, convert)) return false;
    const auto given = cast_op<std::pair<floodtide::Vec3, floodtide::Vec3>>(pair);
    value = {given.first, given.second};
    return true;
  }
  static handle cast(const floodtide::Box& box, return_value_policy /*policy*/, handle /*parent*/) {
    return make_tuple(floodtide::bindings::triple_of(box.start), floodtide::bindings::triple_of(box.size)).release();
  }
};

template <floodtide::bindings::TypeText Name>
struct handle_type_name<floodtide::bindings::Typed<Name>> {
  static constexpr auto name = const_name(Name.text);
};

}  // namespace pybind11::detail
