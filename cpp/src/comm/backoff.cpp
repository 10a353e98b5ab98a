// SPDX-License-Identifier: Apache-2.0
#include "comm/backoff.hpp"

#include <algorithm>
#include <thread>

namespace floodtide::comm {
namespace {

using std::chrono::microseconds;

constexpr microseconds kSpin{50};
constexpr microseconds kLongestSleep{1000};
constexpr int kShareOfWait = 16;  // a sleep lasts 1/16 of the time waited so far
constexpr std::chrono::milliseconds kOnWaitPeriod{50};

}  // namespace

void Backoff::pause() {
  const auto now = Clock::now();
  const auto waited = std::chrono::duration_cast<microseconds>(now - start_);
  if (waited < kSpin) return;
  if (waited < patience_) {
    std::this_thread::yield();
    return;
  }
  if (now - next_call_ >= kOnWaitPeriod) {
    next_call_ = now;
    if (on_wait_) on_wait_();
  }
  std::this_thread::sleep_for(std::min(waited / kShareOfWait, kLongestSleep));
}

}  // namespace floodtide::comm
