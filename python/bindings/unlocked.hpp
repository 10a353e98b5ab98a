// SPDX-License-Identifier: Apache-2.0
// Objects whose threads may call Python. Their destructors wait for these threads, so they must not hold the interpreter lock.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "floodtide/base/own_process.hpp"

namespace floodtide::bindings {

/// The object with an owner that releases the interpreter lock (if held) before the object is destroyed. A child of fork() does
/// not destroy the object: the threads that the destructor waits for are its parent's.
template <class T>
[[nodiscard]] std::shared_ptr<T> freed_unlocked(std::unique_ptr<T> object) {
  return std::shared_ptr<T>(object.release(), [process = OwnProcess()](T* pointer) {
    if (!process.is_here()) return;
    if (PyGILState_Check() == 0) {
      delete pointer;
      return;
    }
    const pybind11::gil_scoped_release unlocked;
    delete pointer;
  });
}

/// Return the object for Python, where it keeps other objects alive. pybind11 3.1.0 crashes if a function with
/// py::keep_alive<0, n> gets an argument of a wrong type.
template <class T, class... Kept>
[[nodiscard]] pybind11::object keeping(std::shared_ptr<T> object, const Kept&... kept) {
  pybind11::object result = pybind11::cast(std::move(object));
  (pybind11::detail::keep_alive_impl(result, pybind11::cast(&kept)), ...);
  return result;
}

}  // namespace floodtide::bindings
