// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/own_process.hpp"

#include <pthread.h>

#include <atomic>

namespace floodtide {
namespace {

constinit std::atomic<int> depth{0};

}  // namespace

int fork_depth() noexcept {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { depth.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return depth.load(std::memory_order_relaxed);
}

}  // namespace floodtide
