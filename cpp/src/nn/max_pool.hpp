// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/conv_block.hpp"
#include "nn/grid.hpp"

namespace floodtide::nn {

/// Max pooling with kernel and stride `pool`: from some channels of an activation on `from` to one on `to`, whose extents are
/// those of `from` divided by the pool.
struct MaxPool {
  Grid from, to;
  Vec3 pool;
  std::int64_t channels;

  void forward(Channels<const float> input, float* out) const;
  /// Adds the gradient to that of the largest voxel, of equal ones the first.
  /// @param pooled what forward wrote
  void backward(Channels<const float> input, const float* pooled, const float* grad, Channels<float> input_grad) const;
};

}  // namespace floodtide::nn
