// SPDX-License-Identifier: Apache-2.0
// Arrays are passed between Python and C++ without copies. Inputs are checked for dtype and C order. Outputs own their memory,
// or share its ownership.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/progress.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::bindings {

namespace py = pybind11;

/// Return why C++ cannot use the elements of an array in place; empty if it can. Elements must lie in C order without gaps,
/// each at an address that its type allows: np.frombuffer(..., offset=1) breaks the second rule.
inline const char* not_plain(const py::array& array) {
  if ((array.flags() & py::array::c_style) == 0) return "a strided one";
  if ((array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_) == 0) return "one at an unaligned address; copy it";
  return "";
}

/// Throws Error(invalid_argument) unless C++ can use the elements of an array in place. `what` names the array.
inline void require_plain(const py::array& array, const std::string& what) {
  const std::string_view reason = not_plain(array);
  FLOODTIDE_REQUIRE(reason.empty(), invalid_argument, what, ": expected a C-contiguous array, got ", reason);
}

/// Return a view of a NumPy array. The array must be C-contiguous and aligned, with exactly this dtype and number of axes.
/// `what` names the array in error messages.
template <class T, std::size_t Rank>
View<T, Rank> view_of(const py::object& object, const std::string& what) {
  using Plain = std::remove_const_t<T>;
  const auto expected = str_cat(what, ": expected a C-contiguous array of ",
                                py::str(py::dtype::of<Plain>()).template cast<std::string>(), " with ", Rank, " axes, got ");
  FLOODTIDE_REQUIRE(py::isinstance<py::array>(object), invalid_argument, expected,
                    py::type::of(object).attr("__name__").template cast<std::string>());
  const auto array = py::reinterpret_borrow<py::array>(object);
  FLOODTIDE_REQUIRE(py::isinstance<py::array_t<Plain>>(array), invalid_argument, expected, "dtype ",
                    py::str(array.dtype()).template cast<std::string>());
  FLOODTIDE_REQUIRE(array.ndim() == static_cast<py::ssize_t>(Rank), shape_mismatch, expected, array.ndim(), " axes");
  const std::string_view reason = not_plain(array);
  FLOODTIDE_REQUIRE(reason.empty(), invalid_argument, expected, reason);
  Shape<Rank> shape;
  for (std::size_t axis = 0; axis < Rank; ++axis) shape[axis] = array.shape(static_cast<py::ssize_t>(axis));
  if constexpr (std::is_const_v<T>) {
    return {static_cast<const Plain*>(array.data()), shape};
  } else {
    FLOODTIDE_REQUIRE(array.writeable(), invalid_argument, expected, "a read-only one");
    return {static_cast<Plain*>(const_cast<void*>(array.data())), shape};
  }
}

/// Return a view of a NumPy array of rows, as view_of does. Throws Error(shape_mismatch) for another number of columns.
template <class T>
View<const T, 2> rows_with(std::int64_t columns, const py::object& object, const std::string& what) {
  const auto rows = view_of<const T, 2>(object, what);
  FLOODTIDE_REQUIRE(rows.shape(1) == columns, shape_mismatch, what, ": expected ", columns, " columns, got ", rows.shape(1));
  return rows;
}

/// Call a function without the interpreter lock, and return its result.
template <class Body>
auto without_lock(const Body& body) {
  const py::gil_scoped_release unlocked;
  return body();
}

/// Return a C-contiguous NumPy array over memory of `owner`, which the array shares: the memory lives as long as the array. The
/// array of constant elements is read-only.
template <class T>
py::array_t<std::remove_const_t<T>> shared_array(T* data, std::span<const std::int64_t> shape,
                                                 std::shared_ptr<const void> owner) {
  using Owner = std::shared_ptr<const void>;
  const py::capsule base(std::make_unique<Owner>(std::move(owner)).release(),
                         [](void* pointer) { delete static_cast<Owner*>(pointer); });
  py::array_t<std::remove_const_t<T>> array(std::vector<py::ssize_t>(shape.begin(), shape.end()), data, base);
  if constexpr (std::is_const_v<T>) array.attr("flags").attr("writeable") = false;
  return array;
}

/// Return a NumPy array that owns the memory of `tensor`.
template <class T, std::size_t Rank>
py::array_t<T> to_numpy(Tensor<T, Rank> tensor) {
  const auto owner = std::make_shared<Tensor<T, Rank>>(std::move(tensor));
  return shared_array(owner->data(), owner->shape(), owner);
}

/// Return a Progress that calls callback(done, total), unless it is None, with the interpreter lock held. It raises
/// KeyboardInterrupt after Ctrl-C.
inline Progress progress_of(const py::object& callback) {
  return [callback = std::make_shared<py::object>(callback)](std::int64_t done, std::int64_t total) {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!callback->is_none()) (*callback)(done, total);
  };
}

}  // namespace floodtide::bindings
