// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
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

/// What kind of failure an Error reports. The command line exits 2 for the kinds that a user can mend in his input
/// (see is_input_error) and 1 for all others.
enum class ErrorCode {
  invalid_argument,  ///< a value outside what the operation accepts
  shape_mismatch,    ///< arrays or volumes whose sizes do not fit each other
  out_of_range,      ///< an index or coordinate outside its array
  unsupported,       ///< a valid request that this build or machine cannot serve
  invalid_file,      ///< an input file that is missing, truncated or not what its name promises
  io,                ///< reading or writing failed although the request was right (disk full, permissions)
  numerical,         ///< a loss or gradient that is not finite
  communication,     ///< a lost rank or a failed message
  internal,          ///< a broken invariant of ours
};

[[nodiscard]] std::string_view name(ErrorCode code) noexcept;

/// True for the kinds that wrong usage or wrong input causes (exit status 2).
[[nodiscard]] bool is_input_error(ErrorCode code) noexcept;

/// The only exception type of the library. Messages name the operation, what was expected and what came.
/// Exported: it crosses the border between the core and its plug-ins.
class FLOODTIDE_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// The parts written one after another with operator<<.
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

/// Guards public entry points: always on, O(1), no side effects.
/// Example: FLOODTIDE_REQUIRE(n > 0, shape_mismatch, "conv3d: batch is ", n, ", expected at least 1");
#define FLOODTIDE_REQUIRE(condition, code, ...)                      \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::floodtide::raise(::floodtide::ErrorCode::code, __VA_ARGS__); \
    }                                                                \
  } while (false)

/// States an invariant of ours; vanishes unless FLOODTIDE_ASSERTIONS is defined.
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
