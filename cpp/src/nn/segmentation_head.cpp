// SPDX-License-Identifier: Apache-2.0
#include "nn/segmentation_head.hpp"

#include <algorithm>

#include "kernels/pointwise/dispatch.hpp"

namespace floodtide::nn {

namespace {

LossPass loss_pass(const Grid& grid, std::int64_t n, int classes, Output output) {
  return {n, grid.voxels() / n, classes, output, chunks_of(grid.rows(), n)};
}

}  // namespace

SegmentationHead::SegmentationHead(const Grid& grid, std::int64_t n, std::int64_t channels, int classes, Output output)
    : grid_(grid),
      n_(n),
      channels_(channels),
      classes_(classes),
      output_(output),
      loss_(loss_pass(grid, n, classes, output)),
      pointwise_(&kernels::pointwise::kernels_at(active_isa())) {}

void SegmentationHead::set_weights(std::span<const float> weights, std::span<const float> biases) {
  for (std::int64_t c = 0; c < channels_; ++c) {
    for (std::int64_t k = 0; k < classes_; ++k)
      weights_[k * channels_ + c] = weights[static_cast<std::size_t>(c * classes_ + k)];
  }
  std::ranges::copy(biases, biases_.data());
}

const float* SegmentationHead::row_of(const HeadInput& input, std::int64_t row, std::int64_t part) noexcept {
  const float* const values = input.values + grid_.offset(row, channels_);
  if (input.block == nullptr) return values;
  float* const out = rows_.data() + part * grid_.x * channels_;
  pointwise_->normalise(values, input.block->affine(row / grid_.unit_rows()), grid_.x, channels_, out, channels_);
  return out;
}

template <class Body>
void SegmentationHead::for_each_row_of_logits(const HeadInput& input, Body body) {
  for_each_chunk(grid_.rows(), n_, loss_.chunks(), [&](std::int64_t image, std::int64_t chunk, Range rows) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float* const values = row_of(input, row, image * loss_.chunks() + chunk);
      pointwise_->head(values, grid_.x, channels_, classes_, weights_.data(), biases_.data(), row_probabilities(row));
      body(image, chunk, row);
    }
  });
}

void SegmentationHead::forward(const HeadInput& input) {
  for_each_row_of_logits(input, [&](std::int64_t, std::int64_t, std::int64_t row) {
    to_probabilities(output_, classes_, grid_.x, row_probabilities(row));
  });
}

LossReport SegmentationHead::forward(const HeadInput& input, const SegmentationLoss& loss, const SegmentationTruth& truth,
                                     double scale, const SumOverRanks& sum_over_ranks) {
  loss_.begin(loss, truth, scale);
  for_each_row_of_logits(input, [&](std::int64_t image, std::int64_t chunk, std::int64_t row) {
    loss_.forward(image, chunk, row * grid_.x, grid_.x, row_probabilities(row));
  });
  return loss_.finish(sum_over_ranks);
}

void SegmentationHead::backward(std::int64_t image, const HeadInput& input, float* out_input_grad) {
  const std::int64_t each = sums_each(channels_, classes_);
  for_each_chunk(image_rows(), 1, loss_.chunks(), [&](std::int64_t, std::int64_t chunk, Range rows) {
    const std::int64_t part = image * loss_.chunks() + chunk;
    double* const sums = sums_.data() + part * each;
    double* const bias_sums = sums + classes_ * channels_;
    float* const logit_grad = logit_grad_.data() + part * grid_.x * classes_;
    std::fill_n(sums, each, 0.0);
    for (std::int64_t in_image = rows.begin; in_image < rows.end; ++in_image) {
      const std::int64_t row = image * image_rows() + in_image;
      loss_.gradient(image, row * grid_.x, grid_.x, row_probabilities(row), logit_grad);
      pointwise_->head_gradient(row_of(input, row, part), grid_.x, channels_, classes_, weights_.data(), logit_grad,
                                out_input_grad + grid_.offset(row, channels_), sums);
      for (std::int64_t i = 0; i < grid_.x * classes_; ++i) bias_sums[i % classes_] += double{logit_grad[i]};
    }
  });
}

void SegmentationHead::finish_gradients(std::span<float> out_weight_grad, std::span<float> out_bias_grad) {
  add_parts(n_ * loss_.chunks(), sums_each(channels_, classes_), sums_.data());
  for (std::int64_t k = 0; k < classes_; ++k) {
    for (std::int64_t c = 0; c < channels_; ++c) {
      out_weight_grad[static_cast<std::size_t>(c * classes_ + k)] += static_cast<float>(sums_[k * channels_ + c]);
    }
    out_bias_grad[static_cast<std::size_t>(k)] += static_cast<float>(sums_[classes_ * channels_ + k]);
  }
}

std::size_t SegmentationHead::bytes() const noexcept {
  return loss_.bytes() + static_cast<std::size_t>(probabilities_.size() + logit_grad_.size() + rows_.size()) * sizeof(float) +
         static_cast<std::size_t>(sums_.size()) * sizeof(double);
}

std::size_t SegmentationHead::bytes_of(const Grid& grid, std::int64_t n, std::int64_t channels, int classes, Output output) {
  const LossPass loss = loss_pass(grid, n, classes, output);
  const std::int64_t parts = n * loss.chunks();
  return loss.bytes() +
         static_cast<std::size_t>(grid.voxels() * classes + parts * grid.x * (classes + channels)) * sizeof(float) +
         static_cast<std::size_t>(parts * sums_each(channels, classes)) * sizeof(double);
}

}  // namespace floodtide::nn
