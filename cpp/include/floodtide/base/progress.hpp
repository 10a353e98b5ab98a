// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace floodtide {

/// Callback of a long operation, which calls it repeatedly with the work done so far and the total work. The call happens on
/// the thread that started the operation. The callback may throw to stop the operation: the bindings throw when the user
/// presses Ctrl-C. May be empty.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Call `progress` unless it is empty.
inline void report(const Progress& progress, std::int64_t done, std::int64_t total) {
  if (progress) progress(done, total);
}

}  // namespace floodtide
