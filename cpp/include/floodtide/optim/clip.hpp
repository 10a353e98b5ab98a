// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/tensor/parameters.hpp"

namespace floodtide::optim {

/// Clip each gradient to [-limit, limit], as google/ffn does (max_gradient_entry_mag). NaN stays NaN.
/// Throws Error(invalid_argument) unless limit > 0.
void clip_entries(std::span<float> gradients, double limit);

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

/// Adaptive clipping: limits the norm of the gradient of each unit to a multiple of the norm of its weights.
///
/// A unit is one output channel of an array with several axes (the last axis), and all of an array with one axis. Weights with
/// a norm below 1e-3 count as 1e-3. Source: Brock et al., "High-performance large-scale image recognition without
/// normalization", ICML 2021, section 4.
class AdaptiveClip {
 public:
  /// Throws Error(invalid_argument) unless limit > 0.
  AdaptiveClip(const ParameterLayout& layout, double limit);

  /// Multiplies the gradients of units that exceed the limit. They are compared after a multiplication by `factor`, which is
  /// not applied. Both spans hold the trained arrays. Allocates nothing.
  void operator()(std::span<const float> parameters, std::span<float> gradients, double factor);

 private:
  struct Array {
    std::int64_t begin, end, units;
    std::int64_t first_unit;  // index of its first unit in the sums
  };
  double limit_;
  std::vector<Array> arrays_;
  AlignedBuffer<double> weights_, gradients_;  // sums of squares of each unit
};

}  // namespace floodtide::optim
