// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "floodtide/base/error.hpp"

namespace floodtide {

/// An exception as one of ours, of one line: also those of the standard library, such as for memory or threads that the system
/// does not have (ErrorCode::io). All others are `internal`.
[[nodiscard]] Error as_error(const std::exception_ptr& exception);

}  // namespace floodtide
