// SPDX-License-Identifier: Apache-2.0
// Exact conversions of numbers from Python to C++, for all bound functions.
//
// pybind11's own conversions raise a TypeError of many lines both for a wrong type and for a number that does not fit into the
// C++ type. A wrong type is a programming error, but a number that does not fit may come from a user. These conversions throw
// Error(invalid_argument) with one line for such a number. Public functions also check named ranges before
// (floodtide/base/limits.py).
#pragma once

#include <pybind11/pybind11.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "floodtide/base/limits.hpp"

namespace floodtide::bindings {

namespace py = pybind11;

/// Return the fields of a floodtide.options.Range: {"minimum", "maximum", "above", "below"}.
inline py::dict dict_of(const Limits& limits) {
  return py::dict(py::arg("minimum") = limits.minimum, py::arg("maximum") = limits.maximum, py::arg("above") = limits.above,
                  py::arg("below") = limits.below);
}

/// Return a Python number as text for a message. Numbers with very many digits are not printed in full.
inline std::string shown(py::handle number) {
  constexpr Py_ssize_t kMost = 60;
  PyObject* text = PyObject_Str(number.ptr());
  if (text == nullptr) {  // Python refuses to print more than 4300 digits
    PyErr_Clear();
    return "one of thousands of digits";
  }
  const auto owned = py::reinterpret_steal<py::str>(text);
  const auto whole = owned.cast<std::string>();
  return std::ssize(whole) <= kMost ? whole : whole.substr(0, kMost) + "...";
}

template <class T>
[[noreturn]] void raise_outside(py::handle number) {
  raise(ErrorCode::invalid_argument, "a number is ", shown(number), ", expected ", +std::numeric_limits<T>::lowest(), " to ",
        +std::numeric_limits<T>::max());
}

/// Converts integers of Python and NumPy to a C++ type of at most 64 bits.
template <class T>
struct IntegerCaster {
  PYBIND11_TYPE_CASTER(T, pybind11::detail::const_name("int"));

  bool load(py::handle source, bool /*convert*/) {
    if (!source || PyIndex_Check(source.ptr()) == 0) return false;
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(source.ptr()));
    if (!number) {
      PyErr_Clear();
      return false;
    }
    int overflow = 0;
    const long long whole = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow == 0) {
      if (!std::in_range<T>(whole)) raise_outside<T>(number);
      value = static_cast<T>(whole);
      return true;
    }
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::uint64_t)) {
      if (overflow > 0) {
        value = static_cast<T>(PyLong_AsUnsignedLongLong(number.ptr()));
        if (PyErr_Occurred() == nullptr) return true;
        PyErr_Clear();
      }
    }
    raise_outside<T>(number);
  }

  static py::handle cast(T source, py::return_value_policy /*policy*/, py::handle /*parent*/) {
    return std::is_signed_v<T> ? PyLong_FromLongLong(static_cast<long long>(source))
                               : PyLong_FromUnsignedLongLong(static_cast<unsigned long long>(source));
  }
};

/// Converts objects that Python accepts as float. An integer outside the range of float throws Error(invalid_argument): it does
/// not become infinity, and does not raise a TypeError.
template <class T>
struct RealCaster {
  PYBIND11_TYPE_CASTER(T, pybind11::detail::const_name("float"));

  bool load(py::handle source, bool convert) {
    if (!source || (!convert && PyFloat_Check(source.ptr()) == 0)) return false;
    const double real = PyFloat_AsDouble(source.ptr());
    if (real == -1.0 && PyErr_Occurred() != nullptr) {
      const bool overflow = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
      PyErr_Clear();
      if (overflow) raise_outside<double>(source);
      return false;
    }
    if (std::isfinite(real) && std::abs(real) > static_cast<double>(std::numeric_limits<T>::max())) raise_outside<T>(source);
    value = static_cast<T>(real);
    return true;
  }

  static py::handle cast(T source, py::return_value_policy /*policy*/, py::handle /*parent*/) {
    return PyFloat_FromDouble(static_cast<double>(source));
  }
};

}  // namespace floodtide::bindings

namespace pybind11::detail {

template <>
struct type_caster<int> : floodtide::bindings::IntegerCaster<int> {};
template <>
struct type_caster<unsigned int> : floodtide::bindings::IntegerCaster<unsigned int> {};
template <>
struct type_caster<long> : floodtide::bindings::IntegerCaster<long> {};
template <>
struct type_caster<unsigned long> : floodtide::bindings::IntegerCaster<unsigned long> {};
template <>
struct type_caster<long long> : floodtide::bindings::IntegerCaster<long long> {};
template <>
struct type_caster<unsigned long long> : floodtide::bindings::IntegerCaster<unsigned long long> {};
template <>
struct type_caster<double> : floodtide::bindings::RealCaster<double> {};
template <>
struct type_caster<float> : floodtide::bindings::RealCaster<float> {};

}  // namespace pybind11::detail
