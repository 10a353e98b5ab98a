// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/measure.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "bench/peak/loops.hpp"
#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::bench {
namespace {

constexpr double kPeakSample_s = 4e-3;
constexpr std::int64_t kLeastSamples = 20, kLeastSlowSamples = 3;
constexpr double kSlowS = 2;

const PeakLoop& loop_of(Isa level) {
#if defined(__x86_64__)
  if (level == Isa::avx512) return kPeakAvx512;
  if (level == Isa::avx2) return kPeakAvx2;
#endif
  static_cast<void>(level);
  return kPeakGeneric;
}

}  // namespace

double Samples::total_s() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

double Samples::quantile(double share) const {
  FLOODTIDE_ASSERT(!seconds_.empty());
  std::vector<double> sorted = seconds_;
  std::ranges::sort(sorted);
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

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
  const double seconds = now_s() - start_s;
  samples_.add(seconds);
  return flops() / seconds * 1e-9;
}

double Peak::flops() const noexcept { return loop_->flops_per_round * static_cast<double>(rounds_ * threads_); }

bool enough(std::int64_t samples, double spent_s) noexcept {
  return samples >= kLeastSamples || (samples >= kLeastSlowSamples && spent_s >= kSlowS);
}

std::vector<Samples> measure(const std::vector<std::function<void()>>& bodies, Peak& peak, double seconds) {
  for (const auto& body : bodies) body();
  std::vector<Samples> samples(bodies.size());
  const auto has_time = [&](const Samples& s) { return s.total_s() >= seconds; };
  const double start_s = now_s();
  for (std::int64_t round = 0; !enough(round, now_s() - start_s) || !std::ranges::all_of(samples, has_time); ++round) {
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      peak.sample();
      const double body_start_s = now_s();
      bodies[i]();
      samples[i].add(now_s() - body_start_s);
    }
  }
  return samples;
}

Row peak_row(Isa level, double seconds) {
  Peak peak(level);
  const double start_s = now_s();
  while (!enough(peak.samples().size(), now_s() - start_s) || peak.samples().total_s() < seconds) peak.sample();
  Row row;
  row.name = "peak";
  row.kernel = str_cat("fma_", name(level));
  row.level = name(level);
  row.shape = "registers";
  row.threads = num_threads();
  row.flops = peak.flops();
  row.samples = peak.samples();
  row.peak_gflops = peak.gflops();
  row.best_peak_gflops = peak.flops() / peak.samples().quantile(0.0) * 1e-9;
  return row;
}

}  // namespace floodtide::bench
