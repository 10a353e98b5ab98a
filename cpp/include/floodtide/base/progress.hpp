// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace floodtide {

/// Called now and then, on the calling thread of a long operation, with the work done and the whole work. May throw to stop
/// the operation (the bindings throw when the user presses Ctrl-C). May be empty.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

inline void report(const Progress& progress, std::int64_t done, std::int64_t total) {
  if (progress) progress(done, total);
}

}  // namespace floodtide
