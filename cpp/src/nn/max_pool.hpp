// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/conv_block.hpp"
#include "nn/grid.hpp"

namespace floodtide::nn {

/// Max pooling with kernel and stride `pool`, from `channels` channels of an activation on `from` to an activation on `to`. The
/// sizes of `to` are those of `from` divided by `pool`.
struct MaxPool {
  Grid from, to;
  Vec3 pool;
  std::int64_t channels;

  void forward(Channels<const float> input, float* out) const;
  /// Adds each gradient to that of the largest input voxel. If several voxels are equal, the first one gets it.
  /// @param pooled output of forward()
  void backward(Channels<const float> input, const float* pooled, const float* grad, Channels<float> input_grad) const;
};

}  // namespace floodtide::nn
