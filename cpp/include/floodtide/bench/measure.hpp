// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "floodtide/base/isa.hpp"

namespace floodtide::bench {

/// True if a benchmark has enough samples of each body: at least 20, or at least 3 if the benchmark has taken 2 s.
[[nodiscard]] bool enough(std::int64_t samples, double spent_s) noexcept;

/// Times of repeated runs, in seconds.
class Samples {
 public:
  void add(double seconds) { seconds_.push_back(seconds); }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(seconds_.size()); }
  [[nodiscard]] double total_s() const;
  /// Return a quantile of the samples, interpolated: share 0 gives the smallest value, 0.5 the median.
  [[nodiscard]] double quantile(double share) const;

 private:
  std::vector<double> seconds_;
};

/// Multiply-add peak of an instruction-set level, on num_threads() threads. Samples of the peak are taken between runs of the
/// benchmark, so that both see the same clock frequency and the same load on the machine.
class Peak {
 public:
  explicit Peak(Isa level);
  /// Run the loop on every thread for a few milliseconds, and store the time. Return the rate in 1e9 operations per second.
  double sample();
  /// Return the floating-point operations of one sample, over all threads.
  [[nodiscard]] double flops() const noexcept;
  [[nodiscard]] const Samples& samples() const noexcept { return samples_; }
  /// Return the peak of the median sample, in 1e9 operations per second.
  [[nodiscard]] double gflops() const { return flops() / samples_.quantile(0.5) * 1e-9; }

 private:
  const struct PeakLoop* loop_;
  int threads_;
  std::int64_t rounds_;
  std::vector<float> sinks_;
  Samples samples_;
};

/// One row of a benchmark result: what ran, how long it took, and the peak measured in the same run.
struct Row {
  std::string name;    ///< benchmark and variant, for example "conv forward"
  std::string kernel;  ///< name of the kernel that ran
  std::string level;   ///< instruction-set level
  std::string shape;
  int threads = 1;
  double flops = 0.0;  ///< floating-point operations of one run; 0 if the benchmark does not count operations
  Samples samples;
  double peak_gflops = 0.0;       ///< peak of the median sample of the peak loop
  double best_peak_gflops = 0.0;  ///< peak of the fastest sample of the peak loop
};

/// Run the bodies and the peak loop alternately, and return the samples of each body.
///
/// Each body runs once before as a warm-up. The runs end when there are `enough` samples, and each body has run for `seconds`.
[[nodiscard]] std::vector<Samples> measure(const std::vector<std::function<void()>>& bodies, Peak& peak, double seconds);

/// Measure the peak of a level, and return it as a row.
[[nodiscard]] Row peak_row(Isa level, double seconds);

}  // namespace floodtide::bench
