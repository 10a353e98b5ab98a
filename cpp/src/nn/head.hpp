// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/base/memory.hpp"
#include "floodtide/tensor/view.hpp"
#include "kernels/conv3d/shape.hpp"

namespace floodtide::nn {

/// The end of the network: ReLU, 1x1x1 convolution to one channel, addition to the logits, and the loss. All of it in one
/// sweep over the rows of the residual stream, because the convolutions leave nothing of it in the cache: the sweep is
/// bound by reading the stream and writing its gradient once.
class Head {
 public:
  /// @param shape extents; out_channels are the stream's channels.
  explicit Head(const kernels::Conv3dShape& shape);

  /// @param weights [features], bias: one number
  void set_weights(std::span<const float> weights, float bias);

  void forward(const float* stream, const float* logits, float* out_logits) const;

  /// Forward, then the mean weighted cross-entropy (returned) and its gradients times `scale`.
  /// @param weights         voxel weights or null for ones
  /// @param out_stream_grad activation: overwritten in its interior
  /// @param out_weight_grad [features] and out_bias_grad [1]: added to
  [[nodiscard]] double backward(const float* stream, const float* logits, const float* labels, const float* weights,
                                double scale, float* out_logits, float* out_stream_grad, std::span<float> out_weight_grad,
                                float& out_bias_grad);

  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(sums_.size()) * sizeof(double); }

 private:
  [[nodiscard]] std::int64_t row_offset(std::int64_t row) const noexcept;

  kernels::Conv3dShape shape_;
  std::int64_t chunks_;
  AlignedBuffer<float> weights_;  // [channels], zero beyond the features
  float bias_ = 0;
  AlignedBuffer<double> sums_;    // [chunks, channels + 2]: weight gradients, bias gradient, loss
  AlignedBuffer<float> scratch_;  // [chunks, channels + x]: weight gradients of a row, its logit gradients
};

}  // namespace floodtide::nn
