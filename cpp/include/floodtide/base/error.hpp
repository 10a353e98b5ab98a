// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#if defined(__GNUC__)
#define FLOODTIDE_EXPORT __attribute__((visibility("default")))
#else
#define FLOODTIDE_EXPORT
#endif

namespace floodtide {

/// Kind of failure that an Error reports. The exit status of the command line is 2 for errors that the user can fix by changing
/// the input: those up to invalid_file. It is 1 for all other errors.
enum class ErrorCode {
  invalid_argument,  ///< a value outside what the operation accepts
  shape_mismatch,    ///< arrays or volumes whose sizes do not fit each other
  out_of_range,      ///< an index or coordinate outside its array
  unsupported,       ///< a valid request that this build or machine cannot serve
  invalid_file,      ///< an input file that is missing, truncated or not what its name promises
  io,                ///< reading or writing failed although the request was valid (disk full, permissions)
  numerical,         ///< a loss or gradient that is not finite
  communication,     ///< a lost rank or a failed message
  in_use,            ///< another thread uses an object in a way that excludes this use
  internal,          ///< a bug in floodtide: one of its invariants does not hold
};

[[nodiscard]] std::string_view name(ErrorCode code) noexcept;

/// Base class of the exceptions of the library. Messages name the operation, what was expected and what was found.
/// The class is exported because plug-ins throw errors that the core catches.
class FLOODTIDE_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Return any exception as an Error. An Error keeps its code. Exceptions of the standard library for missing memory or refused
/// system resources (threads, open files) become ErrorCode::io, and all other exceptions ErrorCode::internal.
[[nodiscard]] Error as_error(const std::exception_ptr& exception);

/// Return one string with all parts, each written with operator<<.
template <class... Parts>
[[nodiscard]] std::string str_cat(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return std::move(stream).str();
}

template <class... Parts>
[[noreturn]] void raise(ErrorCode code, const Parts&... parts) {
  throw Error(code, str_cat(parts...));
}

}  // namespace floodtide

/// Throws Error(code) with the given message parts if `condition` is false. Guards public functions and is always compiled in.
/// `condition` must take constant time and have no side effects.
/// Example: FLOODTIDE_REQUIRE(n > 0, shape_mismatch, "conv3d: batch is ", n, ", expected at least 1");
#define FLOODTIDE_REQUIRE(condition, code, ...)                      \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::floodtide::raise(::floodtide::ErrorCode::code, __VA_ARGS__); \
    }                                                                \
  } while (false)

/// Throws Error(internal) if `condition`, an invariant of floodtide, is false. Compiled in only with FLOODTIDE_ASSERTIONS.
#if defined(FLOODTIDE_ASSERTIONS)
#define FLOODTIDE_ASSERT(condition)                                                                           \
  do {                                                                                                        \
    if (!(condition)) [[unlikely]] {                                                                          \
      ::floodtide::raise(::floodtide::ErrorCode::internal, __FILE__, ":", __LINE__, ": broken: " #condition); \
    }                                                                                                         \
  } while (false)
#else
#define FLOODTIDE_ASSERT(condition) static_cast<void>(0)
#endif
