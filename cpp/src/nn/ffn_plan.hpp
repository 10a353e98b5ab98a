// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/nn/ffn.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "nn/head.hpp"

namespace floodtide::nn {

/// Convolutions and memory of a network for one spatial size.
class FfnPlan {
 public:
  FfnPlan(const Vec3& size, const FfnOptions& options);

  [[nodiscard]] const Vec3& size() const noexcept { return size_; }
  /// Prepares the parameters (in the layout's order: weights and biases of the convolutions, then of the head).
  void set_parameters(const ParameterLayout& layout, std::span<const float> parameters, kernels::Passes passes);

  void forward(std::span<const FfnExample> batch);
  void loss_and_gradients(std::span<FfnExample> batch, const ParameterLayout& layout, std::span<float> gradients, double scale,
                          const OnReady& on_ready);
  void loss_and_each_gradients(std::span<FfnExample> batch, const ParameterLayout& layout, std::span<float> out_gradients,
                               double scale);

  [[nodiscard]] Tensor<std::uint8_t, 5> relu_masks() const;
  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] std::string kernel_names() const;

 private:
  /// Memory for one example at a time.
  ///
  /// Kept for the backward pass: the network's input, the rectified outputs of the `a` convolutions, and the residual stream
  /// before its ReLU (the next convolution rectifies while it reads): 2 * depth activations. Two gradient buffers suffice: one
  /// for the stream, to which each module adds in place, and one for the inside of a module. A forward-only pass uses two
  /// activations.
  struct Lane {
    explicit Lane(const kernels::Conv3dShape& first, const kernels::Conv3dShape& other);

    Head head;
    AlignedBuffer<float> input;                     // channels: image, logits, zeros
    std::vector<AlignedBuffer<float>> activations;  // outputs of convolutions_, `a` rectified, `b` with the skip added
    AlignedBuffer<float> stream_grad, inner_grad;
    AlignedBuffer<float> gradients;  // of the parameters, of one example
    bool trained = false;            // `activations` belong to a whole training pass
  };

  /// Calls body(lane, example, alone) for all, several at a time if `options_.parallel` says so (not alone), then
  /// after(lane, number of the example) in their order.
  template <class Example, class Body, class After>
  void for_each_example(std::span<Example> batch, Body body, After after);
  void reserve(Lane& lane, std::size_t activations) const;
  void load_input(Lane& lane, const FfnExample& example) const;
  void forward(Lane& lane, const FfnExample& example) const;
  /// Calls on_ready for each entry of lane.gradients that is final.
  void train(Lane& lane, FfnExample& example, const ParameterLayout& layout, double scale, const OnReady& on_ready) const;

  Vec3 size_;
  FfnOptions options_;
  std::vector<kernels::Conv3d> convolutions_;  // conv0_a, conv0_b, conv1_a, ...
  std::vector<float> head_weights_;
  float head_bias_ = 0;
  std::vector<Lane> lanes_;
};

/// Extents of convolution `number` (conv0_a, conv0_b, ...).
[[nodiscard]] kernels::Conv3dShape convolution_shape(const Vec3& size, int features, int number);

}  // namespace floodtide::nn
