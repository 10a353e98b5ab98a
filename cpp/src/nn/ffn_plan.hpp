// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/tensor/view.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "nn/head.hpp"

namespace floodtide::nn {

/// Convolutions and memory of a network for one spatial size.
///
/// Kept for the backward pass: the network's input, the rectified outputs of the `a` convolutions, and the residual stream
/// before its ReLU (the next convolution rectifies while it reads): 2 * depth activations. Two gradient buffers suffice: one
/// for the stream, to which each module adds in place, and one for the inside of a module. A forward-only pass uses two
/// activations.
class FfnPlan {
 public:
  FfnPlan(const Vec3& size, int depth, int features, kernels::Compute compute);

  [[nodiscard]] const Vec3& size() const noexcept { return size_; }
  /// Packs the parameters (in the layout's order: weights and biases of the convolutions, then of the head).
  void set_parameters(const ParameterLayout& layout, std::span<const float> parameters, kernels::Passes passes);

  void forward(const float* image, const float* logits, float* out_logits);
  [[nodiscard]] double loss_and_gradients(const float* image, const float* logits, const float* labels, const float* weights,
                                          const ParameterLayout& layout, std::span<float> gradients, double scale,
                                          float* out_logits);

  [[nodiscard]] Tensor<std::uint8_t, 5> relu_masks() const;
  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] std::string kernel_names() const;

 private:
  void reserve(std::size_t activations);
  void load_input(const float* image, const float* logits);

  Vec3 size_;
  int depth_;
  int features_;
  std::vector<kernels::Conv3d> convolutions_;  // conv0_a, conv0_b, conv1_a, ...
  Head head_;
  AlignedBuffer<float> input_;                     // channels: image, logits, zeros
  std::vector<AlignedBuffer<float>> activations_;  // outputs of convolutions_, `a` rectified, `b` with the skip added
  AlignedBuffer<float> stream_grad_, inner_grad_;
  bool trained_ = false;  // activations_ belong to a whole training pass
};

/// Extents of convolution `number` (conv0_a, conv0_b, ...).
[[nodiscard]] kernels::Conv3dShape convolution_shape(const Vec3& size, int features, int number);

}  // namespace floodtide::nn
