// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "floodtide/base/isa.hpp"

namespace floodtide::bench {

/// Whether a benchmark has taken enough samples of each body: 20, or 3 if all of them took 2 s together.
[[nodiscard]] bool enough(std::int64_t samples, double spent_s) noexcept;

/// Seconds of repeated runs.
class Samples {
 public:
  void add(double seconds) { seconds_.push_back(seconds); }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(seconds_.size()); }
  [[nodiscard]] double total_s() const;
  /// The value below which a share of the samples lies (0 gives the least, 0.5 the median), interpolated.
  [[nodiscard]] double quantile(double share) const;

 private:
  std::vector<double> seconds_;
};

/// The multiply-add peak of a level on num_threads() threads, sampled now and then between runs of something else, so that
/// both see the same clock rate and the same neighbours on the machine.
class Peak {
 public:
  explicit Peak(Isa level);
  /// Runs the loop on every thread for a few milliseconds.
  void sample();
  /// Floating-point operations of one sample, over all threads.
  [[nodiscard]] double flops() const noexcept;
  [[nodiscard]] const Samples& samples() const noexcept { return samples_; }
  /// By the median sample, in 1e9 operations per second.
  [[nodiscard]] double gflops() const { return flops() / samples_.quantile(0.5) * 1e-9; }

 private:
  const struct PeakLoop* loop_;
  int threads_;
  std::int64_t rounds_;
  std::vector<float> sinks_;
  Samples samples_;
};

/// One line of a benchmark's result: what ran, how long it took, and which share of the peak of the same run that is.
struct Row {
  std::string name;    ///< benchmark and variant, for example "conv forward"
  std::string kernel;  ///< candidate that ran
  std::string level;
  std::string shape;
  int threads = 1;
  double flops = 0.0;  ///< of one run; 0 where operations are not what is counted
  Samples samples;
  double peak_gflops = 0.0;
  double best_peak_gflops = 0.0;  ///< of the fastest sample of the peak loop
};

/// Runs the bodies and the peak loop in turn, after one warm-up of each, until there are `enough` samples and `seconds` have
/// passed in each body. Returns the samples of each body.
[[nodiscard]] std::vector<Samples> measure(const std::vector<std::function<void()>>& bodies, Peak& peak, double seconds);

/// The peak itself, as a row.
[[nodiscard]] Row peak_row(Isa level, double seconds);

}  // namespace floodtide::bench
