// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/base/memory.hpp"
#include "floodtide/tensor/view.hpp"
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

  void forward(const float* stream, const float* logits, float* out_logits) const;

  /// Arrays of a training pass: one number per voxel, but for the stream and its gradient, which are activations.
  struct Training {
    const float* stream;
    const float* logits;
    const float* labels;
    const float* weights;  ///< weight of each voxel; null: all weights are 1
    double scale;
    float* out_logits;
    float* out_stream_grad;            ///< its interior is overwritten
    std::span<float> out_weight_grad;  ///< [features]; this and out_bias_grad are added to
    float& out_bias_grad;
  };
  /// Runs the forward pass, computes the gradients of `scale` times the loss, and returns the loss: the mean weighted
  /// cross-entropy.
  [[nodiscard]] double backward(const Training& pass);

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_of(shape_); }
  /// Return the bytes of the sums of a head with this shape.
  [[nodiscard]] static std::size_t bytes_of(const kernels::Conv3dShape& shape) noexcept;

 private:
  [[nodiscard]] std::int64_t row_offset(std::int64_t row) const noexcept;

  kernels::Conv3dShape shape_;
  std::int64_t chunks_;
  AlignedBuffer<float> weights_;  // [channels]; zero for channels beyond the features
  float bias_ = 0;
  AlignedBuffer<double> sums_;    // [chunks, channels + 2]: weight gradients, bias gradient, loss
  AlignedBuffer<float> scratch_;  // [chunks, channels + x]: weight gradients and logit gradients of a row
};

}  // namespace floodtide::nn
