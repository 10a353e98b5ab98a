// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

namespace floodtide::comm {

/// How a rank waits: it looks without a pause at first, because its peer is usually about to send; then lets other threads
/// run; then sleeps ever longer, because a blocking MPI wait keeps a core busy that computing threads could use. Sleeps grow
/// with the time waited, so that the delay which they add stays a small part of it.
class Backoff {
 public:
  /// Before it sleeps it lets others run for `patience`: longer where nothing else is to be done than to wait for something
  /// that is near. on_wait is called every 50 ms or so; it may be empty.
  explicit Backoff(const std::function<void()>& on_wait, std::chrono::microseconds patience = kPatience)
      : on_wait_(on_wait), patience_(patience), start_(Clock::now()), next_call_(start_) {}

  /// To be called after a look that found nothing. Throws what on_wait throws.
  void pause();
  /// Something came: the next wait begins.
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
