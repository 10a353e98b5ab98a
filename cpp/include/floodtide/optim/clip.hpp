// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/base/memory.hpp"

namespace floodtide::optim {

/// Sum of squares, on all threads and in a fixed order: the same bits for any number of threads.
class SquareSum {
 public:
  /// Prepares sums of at most `largest` values.
  explicit SquareSum(std::int64_t largest);

  /// Return the sum in double precision. It is not finite if and only if a value is not finite. Allocates nothing.
  [[nodiscard]] double operator()(std::span<const float> values);

 private:
  AlignedBuffer<double> pieces_;
};

/// Return the factor that makes the norm of gradients at most `limit`: min(1, limit / (norm + 1e-6)).
/// Source: Pascanu et al., ICML 2013, algorithm 1; torch.nn.utils.clip_grad_norm_.
[[nodiscard]] double norm_factor(double norm, double limit) noexcept;

}  // namespace floodtide::optim
