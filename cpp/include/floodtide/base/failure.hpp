// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "floodtide/base/error.hpp"

namespace floodtide {

/// Return any exception as an Error. An Error keeps its code. Exceptions of the standard library for missing memory or refused
/// system resources (threads, open files) become ErrorCode::io, and all other exceptions ErrorCode::internal.
[[nodiscard]] Error as_error(const std::exception_ptr& exception);

}  // namespace floodtide
