// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/base/memory.hpp"
#include "floodtide/nn/ffn.hpp"
#include "kernels/conv3d/shape.hpp"

namespace floodtide::nn {

/// Last layer of a flood-filling network: ReLU, 1x1x1 convolution to one channel, addition to the logits, and the loss.
///
/// All steps happen in one sweep over the rows of the residual stream, because the stream is not in the cache after the
/// convolutions. The time of the sweep is that of reading the stream and writing its gradient once.
class Head {
 public:
  /// @param shape image size; out_channels is the number of channels of the stream
  explicit Head(const kernels::Conv3dShape& shape);

  /// @param weights [features]
  void set_weights(std::span<const float> weights, float bias);

  /// Computes example.out_logits. @param stream activation
  void forward(const float* stream, const FfnExample& example) const;
  /// Runs the forward pass, computes the gradients of `scale` times the loss, and sets example.loss: the mean weighted
  /// cross-entropy.
  /// @param out_stream_grad activation; its interior is overwritten
  /// @param out_weight_grad [features]; this and out_bias_grad are added to
  void backward(const float* stream, FfnExample& example, double scale, float* out_stream_grad,
                std::span<float> out_weight_grad, float& out_bias_grad);

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_of(shape_); }
  /// Return the bytes of the sums of a head with this shape.
  [[nodiscard]] static std::size_t bytes_of(const kernels::Conv3dShape& shape) noexcept;

 private:
  [[nodiscard]] std::int64_t row_offset(std::int64_t row) const noexcept;

  kernels::Conv3dShape shape_;
  std::int64_t chunks_;
  AlignedBuffer<float> weights_{shape_.stored_out()};  // zero for channels beyond the features
  float bias_ = 0;
  // For each chunk: weight gradients, bias gradient and loss; weight gradients and logit gradients of a row.
  AlignedBuffer<double> sums_{chunks_ * (shape_.stored_out() + 2)};
  AlignedBuffer<float> scratch_{chunks_ * (shape_.stored_out() + shape_.x)};
};

}  // namespace floodtide::nn
