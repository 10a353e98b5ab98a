// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/base/memory.hpp"
#include "kernels/pointwise/pointwise.hpp"
#include "nn/grid.hpp"
#include "nn/loss_pass.hpp"

namespace floodtide::nn {

/// Last layer of a U-Net: a 1x1x1 convolution, softmax or sigmoids, and the loss. Both passes work row by row, so that the
/// logits of a row and their gradients stay in the cache.
class SegmentationHead {
 public:
  /// @param n number of images in the voxels of `grid`
  SegmentationHead(const Grid& grid, std::int64_t n, std::int64_t channels, int classes, Output output);

  /// @param weights [1, 1, 1, channels, classes], biases [classes]
  void set_weights(std::span<const float> weights, std::span<const float> biases);

  /// Computes the probabilities [n, voxels, classes].
  void forward(const float* input);
  /// Computes the probabilities, and returns the loss.
  [[nodiscard]] LossReport forward(const float* input, const SegmentationLoss& loss, const SegmentationTruth& truth,
                                   double scale, const SumOverRanks& sum_over_ranks);
  /// @param out_input_grad activation; its interior is overwritten
  /// @param out_weight_grad, out_bias_grad the gradients are added to them
  void backward(const float* input, float* out_input_grad, std::span<float> out_weight_grad, std::span<float> out_bias_grad);

  [[nodiscard]] std::span<const float> probabilities() const noexcept { return probabilities_.span(); }
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Return what bytes() of a head with these arguments of the constructor is.
  [[nodiscard]] static std::size_t bytes_of(const Grid& grid, std::int64_t n, std::int64_t channels, int classes,
                                            Output output);

 private:
  /// Calls body(image, chunk, rows of the chunk). Rows count over all images.
  template <class Body>
  void for_each_image_chunk(Body body) const;
  [[nodiscard]] float* row_probabilities(std::int64_t row) noexcept { return probabilities_.data() + row * grid_.x * classes_; }
  /// Return the number of sums per chunk, rounded up to whole vectors.
  [[nodiscard]] static std::int64_t sums_each(std::int64_t channels, std::int64_t classes) noexcept {
    return classes * channels + (classes + 7) / 8 * 8;
  }
  void logits_of(const float* input, std::int64_t row) noexcept;

  Grid grid_;
  std::int64_t n_, channels_, classes_;
  Output output_;
  LossPass loss_;
  const kernels::pointwise::Kernels* pointwise_;
  AlignedBuffer<float> weights_;  // [classes, channels]
  AlignedBuffer<float> biases_;
  AlignedBuffer<float> probabilities_;
  AlignedBuffer<double> sums_;       // [n, chunks, sums_each()]: gradients of the weights, then of the biases
  AlignedBuffer<float> logit_grad_;  // [n, chunks, x * classes]
};

}  // namespace floodtide::nn
