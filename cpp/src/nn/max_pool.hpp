// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/tensor/view.hpp"
#include "kernels/pointwise/pointwise.hpp"
#include "nn/grid.hpp"

namespace floodtide::nn {

/// Max pooling of the output of a ConvBlock. Kernel and stride are `pool`. The input has the grid `from`. The output has the
/// grid `to`, whose sizes are the sizes of `from` divided by `pool`.
struct MaxPool {
  Grid from, to;
  Vec3 pool;
  std::int64_t channels;

  /// @param before, affine see ConvBlock
  void forward(const float* before, kernels::pointwise::Affine affine, float* out) const;
  /// Adds each gradient to that of the largest input voxel. If several voxels are equal, the first one gets it.
  void backward(const float* before, kernels::pointwise::Affine affine, const float* grad, float* input_grad) const;
};

}  // namespace floodtide::nn
