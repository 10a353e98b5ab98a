// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace floodtide::optim {

/// Squared norms of gradients of one step: of small batches, and of their mean, the large batch.
struct GradientNorms {
  double small_square;   ///< mean over the small batches of the squared norm of their mean gradient
  double small_inverse;  ///< mean over the small batches of 1 / examples
  double large_square;   ///< squared norm of the mean gradient of all examples
  double large_inverse;  ///< 1 / number of all examples
};

/// Gradient noise scale: the number of examples at which the noise of the mean gradient is as large as the gradient.
///
/// With the true gradient G and the trace S of the covariance of the gradients of single examples, the expected squared norm of
/// a mean gradient of b examples is |G|^2 + S / b. Two batch sizes therefore give unbiased estimates of |G|^2 and S in each
/// step. Both are averaged over steps, with weights that decay, and the noise scale is S / |G|^2. Source: McCandlish et al.,
/// "An empirical model of large-batch training", arXiv 1812.06162, equation 2.8 and appendix A.1.
class NoiseScale {
 public:
  static constexpr double kDecay = 0.99;           ///< weight of a step relative to the next one
  static constexpr std::int64_t kLeastSteps = 20;  ///< fewer steps give no estimate

  struct Estimate {
    double examples;   ///< the noise scale in examples
    double low, high;  ///< 95 % interval, as if steps were independent; `high` is infinite if |G|^2 may be 0
  };

  /// Adds a step. Steps whose norms are not finite, or whose batches are all of one size, are left out.
  void add(const GradientNorms& norms) noexcept;
  /// Return the estimate, or nothing before kLeastSteps steps and while the estimate of |G|^2 is not positive.
  [[nodiscard]] std::optional<Estimate> estimate() const noexcept;

  static constexpr std::size_t kStateSize = 9;
  /// State for checkpoints; restore it by writing to the span.
  [[nodiscard]] std::span<double, kStateSize> state() noexcept { return state_; }

 private:
  std::array<double, kStateSize> state_{};
};

}  // namespace floodtide::optim
