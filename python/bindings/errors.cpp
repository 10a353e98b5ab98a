// SPDX-License-Identifier: Apache-2.0
// Converts floodtide::Error to Python exceptions. The exception classes are in floodtide/errors.py.
#include "floodtide/base/error.hpp"

#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "bindings.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::bindings {
namespace {

const char* class_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "InvalidArgumentError";
    case ErrorCode::shape_mismatch: return "ShapeError";
    case ErrorCode::out_of_range: return "OutOfRangeError";
    case ErrorCode::unsupported: return "UnsupportedError";
    case ErrorCode::invalid_file: return "InvalidFileError";
    case ErrorCode::io: return "StorageError";
    case ErrorCode::numerical: return "NumericalError";
    case ErrorCode::communication: return "CommunicationError";
    case ErrorCode::in_use: return "InUseError";
    case ErrorCode::internal: return "InternalError";
  }
  return "Error";
}

/// Return the message of an error. It may contain names from a damaged file that are not UTF-8.
py::str text_of(const Error& error) {
  const std::string_view text = error.what();
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), "backslashreplace"));
}

void set(const Error& error) {
  const py::object type = py::module_::import("floodtide.errors").attr(class_name(error.code()));
  PyErr_SetObject(type.ptr(), type(text_of(error)).ptr());
}

}  // namespace

void register_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const comm::AgreedError& error) {
      const py::object type = py::module_::import("floodtide.errors").attr(class_name(error.code()));
      const py::object value = type(text_of(error));
      // If only the ranks of a process set agree on the error, other ranks of the job do not know of it. The job must then be
      // ended for these ranks.
      const int job = py::module_::import("floodtide.comm.world").attr("size")().cast<int>();
      value.attr("agreed") = error.ranks() == 0 || error.ranks() >= job;
      PyErr_SetObject(type.ptr(), value.ptr());
    } catch (const Error& error) {
      set(error);
    } catch (const std::bad_alloc&) {
      set(as_error(pointer));
    } catch (const std::length_error&) {
      set(as_error(pointer));
    } catch (const std::system_error&) {
      set(as_error(pointer));
    }
  });
}

}  // namespace floodtide::bindings
