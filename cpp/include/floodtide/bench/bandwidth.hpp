// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/bench/measure.hpp"

namespace floodtide::bench {

/// Times of reading memory, and the bytes that all threads together read in one sample.
struct Reads {
  Samples samples;
  double bytes = 0.0;
};

/// Let each of num_threads() threads read its own `bytes_per_thread` bytes again and again, one word of each cache line.
///
/// The data come from the first cache that holds them. Throws Error(invalid_argument) for fewer bytes than a cache line.
[[nodiscard]] Reads measure_reads(std::int64_t bytes_per_thread, double seconds);

}  // namespace floodtide::bench
