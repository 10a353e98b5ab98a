// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/limits.hpp"

#include <algorithm>
#include <limits>

#include "bench/peak/loops.hpp"
#include "floodtide/base/clock.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::bench {
namespace {

constexpr double kPeakSample_s = 4e-3;

const PeakLoop& loop_of(Isa level) {
#if defined(__x86_64__)
  if (level == Isa::avx512) return kPeakAvx512;
  if (level == Isa::avx2) return kPeakAvx2;
#endif
  static_cast<void>(level);
  return kPeakGeneric;
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

}  // namespace floodtide::bench
