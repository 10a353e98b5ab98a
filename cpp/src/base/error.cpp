// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/error.hpp"

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

bool is_input_error(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::shape_mismatch:
    case ErrorCode::out_of_range:
    case ErrorCode::unsupported:
    case ErrorCode::invalid_file: return true;
    case ErrorCode::io:
    case ErrorCode::numerical:
    case ErrorCode::communication:
    case ErrorCode::in_use:
    case ErrorCode::internal: return false;
  }
  return false;
}

}  // namespace floodtide
