// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/bandwidth.hpp"

#include <algorithm>
#include <span>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::bench {
namespace {

constexpr std::int64_t kLine = 64 / sizeof(float);              // floats of a cache line
constexpr std::int64_t kSampleBytes = std::int64_t{256} << 20;  // of a thread; a sample then takes milliseconds

void read_lines(const float* values, std::int64_t size) {
  const volatile float* const v = values;
  for (std::int64_t i = 0; i < size; i += kLine) static_cast<void>(v[i]);
}

}  // namespace

Reads measure_reads(std::int64_t bytes_per_thread, double seconds) {
  const std::int64_t size = bytes_per_thread / std::int64_t{sizeof(float)} / kLine * kLine;
  FLOODTIDE_REQUIRE(size >= kLine, invalid_argument, "bench bandwidth: ", bytes_per_thread, " bytes, expected at least 64");
  const std::int64_t threads = num_threads();
  AlignedBuffer<float> buffer(size * threads);
  float* const values = buffer.data();
  // Each thread writes its part first, so that the part lies in the memory of the thread's socket.
  parallel_for(threads, [=](std::int64_t thread) { std::fill_n(values + thread * size, size, 1.0F); });
  const std::int64_t rounds = std::max<std::int64_t>(1, kSampleBytes / (size * std::int64_t{sizeof(float)}));
  Reads result;
  result.bytes = static_cast<double>(size * std::int64_t{sizeof(float)} * rounds * threads);
  const double start_s = now_s();
  while (!enough(result.samples.size(), now_s() - start_s) || result.samples.total_s() < seconds) {
    const double sample_start_s = now_s();
    parallel_for(threads, [=](std::int64_t thread) {
      for (std::int64_t round = 0; round < rounds; ++round) read_lines(values + thread * size, size);
    });
    result.samples.add(now_s() - sample_start_s);
  }
  return result;
}

}  // namespace floodtide::bench
