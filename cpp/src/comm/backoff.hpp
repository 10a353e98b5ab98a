// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

namespace floodtide::comm {

/// Pauses between two tests of a waiting rank. The pauses become longer with the time waited.
///
/// At first there is no pause, because the other rank is usually about to send. Then the thread yields to other threads. Then
/// it sleeps, so that computing threads can use the core. A sleep is a small part of the time waited so far, so that it adds
/// little delay.
class Backoff {
 public:
  /// `patience` is how long the thread yields before it sleeps. Use a longer time for short waits without other work to do.
  /// on_wait is called about every 50 ms while the thread sleeps; it may be empty.
  explicit Backoff(const std::function<void()>& on_wait, std::chrono::microseconds patience = kPatience)
      : on_wait_(on_wait), patience_(patience), start_(Clock::now()), next_call_(start_) {}

  /// Call this after a test that was not successful. Throws what on_wait throws.
  void pause();
  /// Call this after a successful test. The next wait begins.
  void reset() { start_ = next_call_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kPatience{1000};

  const std::function<void()>& on_wait_;
  std::chrono::microseconds patience_;
  Clock::time_point start_;
  Clock::time_point next_call_;
};

}  // namespace floodtide::comm
