// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "floodtide/base/immovable.hpp"

namespace floodtide {

/// Return the time of the monotonic clock in seconds. Only differences between two times have a meaning.
[[nodiscard]] inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Return the time of the same clock in nanoseconds.
[[nodiscard]] inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Timer that adds the seconds between its construction and its destruction to `out_sum_s`.
class ScopedTimer : Immovable {
 public:
  explicit ScopedTimer(double& out_sum_s) noexcept : sum_s_(out_sum_s), start_s_(now_s()) {}
  ~ScopedTimer() { sum_s_ += now_s() - start_s_; }

 private:
  double& sum_s_;
  double start_s_;
};

}  // namespace floodtide
