// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/tensor/view.hpp"
#include "floodtide/train/walkers.hpp"

namespace floodtide::train {

/// Gradients of the walkers of one rank at fixed parameters: their sums, the products of these sums, and their squared norms.
///
/// Walkers see different examples, so the product of the sums of two walkers has no noise in common. This gives an unbiased
/// estimate of the squared norm of the expected gradient, from all pairs of walkers (a U-statistic).
class GradientProducts {
 public:
  /// Throws Error(invalid_argument) unless this rank has all walkers, at least two, and the walkers repeat their shards.
  explicit GradientProducts(std::shared_ptr<Walkers> walkers);

  /// Adds one pass of all walkers. The parameters do not change. Throws as Walkers::compute_each() and Walkers::finish() do.
  void add_pass();

  /// Return the number of passes so far.
  [[nodiscard]] std::int64_t passes() const noexcept { return passes_; }
  /// Return the number of examples of a walker in a pass, whose mean gradient is one term of its sum.
  [[nodiscard]] std::int64_t batch() const noexcept;
  /// Return the inner products [walkers, walkers] of the sums of the walkers' gradients. Statistics are left out.
  [[nodiscard]] Tensor<double, 2> products() const;
  /// Return the sum of the squared norms of the terms of each walker.
  [[nodiscard]] std::span<const double> squares() const noexcept { return squares_; }

 private:
  [[nodiscard]] std::span<const double> sum(std::int64_t walker) const;

  std::shared_ptr<Walkers> walkers_;
  std::int64_t trained_;         // parameters that are trained
  AlignedBuffer<float> terms_;   // [walkers, parameters]: the gradients of a pass
  AlignedBuffer<double> sums_;   // [walkers, trained]
  std::vector<double> squares_;  // by walker
  std::int64_t passes_ = 0;
};

}  // namespace floodtide::train
