// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/base/memory.hpp"
#include "kernels/pointwise/pointwise.hpp"
#include "nn/conv_block.hpp"
#include "nn/grid.hpp"
#include "nn/loss_pass.hpp"

namespace floodtide::nn {

/// Input of the head: the output of a block.
struct HeadInput {
  const float* values;     ///< activation
  const ConvBlock* block;  ///< normalises the values, see ConvBlock; null: the values are the output already
};

/// Last layer of a U-Net: a 1x1x1 convolution, softmax or sigmoids, and the loss. Both passes work row by row, so that the
/// input of a row, its logits and their gradients stay in the cache.
class SegmentationHead {
 public:
  /// @param n number of images in the voxels of `grid`
  SegmentationHead(const Grid& grid, std::int64_t n, std::int64_t channels, int classes, Output output);

  /// @param weights [1, 1, 1, channels, classes], biases [classes]
  void set_weights(std::span<const float> weights, std::span<const float> biases);

  /// Computes the probabilities [n, voxels, classes].
  void forward(const HeadInput& input);
  /// Computes the probabilities, and returns the loss.
  [[nodiscard]] LossReport forward(const HeadInput& input, const SegmentationLoss& loss, const SegmentationTruth& truth,
                                   double scale, const SumOverRanks& sum_over_ranks);
  /// Computes the gradient by the input of one image. Call this for all images, then finish_gradients.
  /// @param out_input_grad activation of all images; the interior of this image is overwritten
  void backward(std::int64_t image, const HeadInput& input, float* out_input_grad);
  /// Adds the gradients of the weights and biases to the outputs.
  void finish_gradients(std::span<float> out_weight_grad, std::span<float> out_bias_grad);

  [[nodiscard]] std::span<const float> probabilities() const noexcept { return probabilities_.span(); }
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Return what bytes() of a head with these arguments of the constructor is.
  [[nodiscard]] static std::size_t bytes_of(const Grid& grid, std::int64_t n, std::int64_t channels, int classes,
                                            Output output);

 private:
  /// Computes the logits of all rows, and calls body(image, chunk, row) after each. Rows count over all images.
  template <class Body>
  void for_each_row_of_logits(const HeadInput& input, Body body);
  [[nodiscard]] float* row_probabilities(std::int64_t row) noexcept { return probabilities_.data() + row * grid_.x * classes_; }
  /// Return the number of sums per chunk, rounded up to whole vectors.
  [[nodiscard]] static std::int64_t sums_each(std::int64_t channels, std::int64_t classes) noexcept {
    return classes * channels + (classes + 7) / 8 * 8;
  }
  [[nodiscard]] std::int64_t image_rows() const noexcept { return grid_.rows() / n_; }
  /// Return a row of the input. @param part number of the chunk among all chunks
  [[nodiscard]] const float* row_of(const HeadInput& input, std::int64_t row, std::int64_t part) noexcept;

  Grid grid_;
  std::int64_t n_, channels_, classes_;
  Output output_;
  LossPass loss_;
  const kernels::pointwise::Kernels* pointwise_;
  AlignedBuffer<float> weights_{classes_ * channels_};  // [classes, channels]
  AlignedBuffer<float> biases_{classes_};
  AlignedBuffer<float> probabilities_{grid_.voxels() * classes_};
  // For each chunk of each image: gradients of the weights and then of the biases; gradients of a row's logits; a row's input.
  AlignedBuffer<double> sums_{n_ * loss_.chunks() * sums_each(channels_, classes_)};
  AlignedBuffer<float> logit_grad_{n_ * loss_.chunks() * grid_.x * classes_};
  AlignedBuffer<float> rows_{n_ * loss_.chunks() * grid_.x * channels_};
};

}  // namespace floodtide::nn
