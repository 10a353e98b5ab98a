// SPDX-License-Identifier: Apache-2.0
// What limits every kernel on this processor: multiply-adds. Samples are taken between runs of a benchmark, so that both see
// the same clock frequency and the same load on the machine.
#pragma once

#include <cstdint>
#include <vector>

#include "floodtide/base/isa.hpp"

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

}  // namespace floodtide::bench
