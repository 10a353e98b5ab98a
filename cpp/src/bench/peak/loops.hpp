// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::bench {

/// The most multiply-adds that one thread can do: independent chains of them on registers, nothing else.
struct PeakLoop {
  double flops_per_round;
  void (*run)(std::int64_t rounds, float* out_sink);  ///< `out_sink` takes the sums so that they are not optimised away
  std::int64_t sink_floats;
};

extern const PeakLoop kPeakGeneric;
extern const PeakLoop kPeakAvx2;
extern const PeakLoop kPeakAvx512;

}  // namespace floodtide::bench
