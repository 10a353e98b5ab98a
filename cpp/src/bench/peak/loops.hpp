// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::bench {

/// Loop with the largest number of multiply-adds per second on one thread: independent chains in registers, nothing else.
struct PeakLoop {
  double flops_per_round;
  void (*run)(std::int64_t rounds, float* out_sink);  ///< writes the sums to `out_sink`, so that they are not optimised away
  std::int64_t sink_floats;
};

extern const PeakLoop kPeakGeneric;
extern const PeakLoop kPeakAvx2;
extern const PeakLoop kPeakAvx512;

}  // namespace floodtide::bench
