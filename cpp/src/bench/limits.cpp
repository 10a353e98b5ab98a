// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/limits.hpp"

#include <algorithm>
#include <limits>

#include "bench/peak/loops.hpp"
#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::bench {
namespace {

constexpr double kPeakSample_s = 4e-3;
constexpr std::int64_t kLine = 64 / sizeof(float);              // floats of a cache line
constexpr std::int64_t kSampleBytes = std::int64_t{256} << 20;  // of a thread; a sample then takes milliseconds

const PeakLoop& loop_of(Isa level) {
#if defined(__x86_64__)
  if (level == Isa::avx512) return kPeakAvx512;
  if (level == Isa::avx2) return kPeakAvx2;
#endif
  static_cast<void>(level);
  return kPeakGeneric;
}

void read_lines(const float* values, std::int64_t size) {
  const volatile float* const v = values;
  for (std::int64_t i = 0; i < size; i += kLine) static_cast<void>(v[i]);
}

}  // namespace

Peak::Peak(Isa level) : loop_(&loop_of(level)), threads_(num_threads()), rounds_(1000) {
  // Factor and addend of the chains: with 0.5, no sum overflows or becomes denormal.
  sinks_.assign(static_cast<std::size_t>(threads_ * loop_->sink_floats), 0.5F);
  double least_s = 0.0;
  while (least_s < kPeakSample_s) {
    rounds_ *= least_s == 0.0 ? 1 : 2;
    least_s = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 3; ++run) {  // a single run may be interrupted, and the first one is not warmed up
      const double start_s = now_s();
      loop_->run(rounds_, sinks_.data());
      least_s = std::min(least_s, now_s() - start_s);
    }
  }
  // With more threads than cores, each thread runs fewer rounds, so that a sample takes the same time.
  if (threads_ > available_cores()) rounds_ = std::max<std::int64_t>(1, rounds_ * available_cores() / threads_);
}

double Peak::sample() {
  std::ranges::fill(sinks_, 0.5F);
  const double start_s = now_s();
  parallel_for(threads_, [this](std::int64_t thread) { loop_->run(rounds_, sinks_.data() + thread * loop_->sink_floats); });
  return loop_->flops_per_round * static_cast<double>(rounds_ * threads_) / (now_s() - start_s) * 1e-9;
}

Reading::Reading(std::int64_t bytes_per_thread)
    : threads_(num_threads()), size_(bytes_per_thread / std::int64_t{sizeof(float)} / kLine * kLine) {
  FLOODTIDE_REQUIRE(size_ >= kLine, invalid_argument, "bench bandwidth: ", bytes_per_thread, " bytes, expected at least 64");
  rounds_ = std::max<std::int64_t>(1, kSampleBytes / (size_ * std::int64_t{sizeof(float)}));
  values_ = AlignedBuffer<float>(size_ * threads_);
  // Each thread writes its part first, so that the part lies in the memory of the thread's socket.
  parallel_for(threads_, [this](std::int64_t thread) { std::fill_n(values_.data() + thread * size_, size_, 1.0F); });
}

void Reading::run() const {
  parallel_for(threads_, [this](std::int64_t thread) {
    for (std::int64_t round = 0; round < rounds_; ++round) read_lines(values_.data() + thread * size_, size_);
  });
}

std::int64_t Reading::bytes() const noexcept { return size_ * std::int64_t{sizeof(float)} * rounds_ * threads_; }

}  // namespace floodtide::bench
