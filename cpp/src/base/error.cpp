// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/error.hpp"

#include <new>
#include <system_error>

namespace floodtide {

std::string_view name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::shape_mismatch: return "shape_mismatch";
    case ErrorCode::out_of_range: return "out_of_range";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::invalid_file: return "invalid_file";
    case ErrorCode::io: return "io";
    case ErrorCode::numerical: return "numerical";
    case ErrorCode::communication: return "communication";
    case ErrorCode::in_use: return "in_use";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

Error as_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::io, "out of memory"};
  } catch (const std::length_error&) {  // a container larger than its maximum size
    return {ErrorCode::io, "out of memory"};
  } catch (const std::system_error& error) {
    return {ErrorCode::io, str_cat("the system refuses: ", error.what(), " (limits of threads, memory or open files?)")};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  } catch (...) {
    return {ErrorCode::internal, "an exception of unknown type"};
  }
}

}  // namespace floodtide
