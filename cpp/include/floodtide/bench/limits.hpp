// SPDX-License-Identifier: Apache-2.0
// What limits every kernel on this processor: multiply-adds, and reading of caches and memory. Samples are taken between runs
// of a benchmark, so that both see the same clock frequency and the same load on the machine.
#pragma once

#include <cstdint>
#include <vector>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"

namespace floodtide::bench {

/// Multiply-add peak of an instruction-set level, on num_threads() threads.
class Peak {
 public:
  explicit Peak(Isa level);
  /// Run the loop on every thread for a few milliseconds. Return the rate in 1e9 operations per second.
  double sample();

 private:
  const struct PeakLoop* loop_;
  int threads_;
  std::int64_t rounds_;
  std::vector<float> sinks_;
};

/// Reading by num_threads() threads, each its own `bytes_per_thread` bytes again and again, one word of each cache line. The
/// data come from the first cache that holds them.
class Reading {
 public:
  /// Throws Error(invalid_argument) for fewer bytes than a cache line.
  explicit Reading(std::int64_t bytes_per_thread);
  /// Read bytes() with all threads together, for some milliseconds.
  void run() const;
  [[nodiscard]] std::int64_t bytes() const noexcept;

 private:
  int threads_;
  std::int64_t size_, rounds_;
  AlignedBuffer<float> values_;
};

}  // namespace floodtide::bench
