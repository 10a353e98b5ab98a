// SPDX-License-Identifier: Apache-2.0
#include "nn/head.hpp"

#include <algorithm>

#include "nn/cross_entropy.hpp"
#include "nn/grid.hpp"

namespace floodtide::nn {
namespace {

constexpr std::int64_t kLanes = kernels::kChannelMultiple;

/// Return the sum over c of max(stream[c], 0) * weights[c]. kLanes partial sums allow the compiler to vectorise the loop.
float rectified_dot(const float* __restrict stream, const float* __restrict weights, std::int64_t channels) noexcept {
  float partial[kLanes] = {};
  for (std::int64_t block = 0; block < channels; block += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const float value = stream[block + lane];
      partial[lane] += (value > 0 ? value : 0.0F) * weights[block + lane];
    }
  }
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
  }
  return partial[0];
}

/// stream_grad = logit_grad * weights where stream > 0; weight_grad += logit_grad * max(stream, 0).
void voxel_backward(const float* __restrict stream, const float* __restrict weights, float logit_grad, std::int64_t channels,
                    float* __restrict out_stream_grad, float* __restrict out_weight_grad) noexcept {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float value = stream[c];
    out_stream_grad[c] = value > 0 ? logit_grad * weights[c] : 0.0F;
    out_weight_grad[c] += logit_grad * (value > 0 ? value : 0.0F);
  }
}

}  // namespace

Head::Head(const kernels::Conv3dShape& shape) : shape_(shape), chunks_(chunks_of(shape.z * shape.y, 1)) {}

std::size_t Head::bytes_of(const kernels::Conv3dShape& shape) noexcept {
  return static_cast<std::size_t>(chunks_of(shape.z * shape.y, 1) * (shape.stored_out() + 2)) * sizeof(double);
}

void Head::set_weights(std::span<const float> weights, float bias) {
  std::ranges::copy(weights, weights_.data());
  bias_ = bias;
}

std::int64_t Head::row_offset(std::int64_t row) const noexcept {
  return kernels::activation_offset(shape_, shape_.stored_out(), row / shape_.y, row % shape_.y, 0);
}

void Head::forward(const float* stream, const FfnExample& example) const {
  const std::int64_t channels = shape_.stored_out();
  for_each_row(shape_.z * shape_.y, [&](std::int64_t row) {
    const float* in = stream + row_offset(row);
    for (std::int64_t x = 0; x < shape_.x; ++x) {
      const std::int64_t voxel = row * shape_.x + x;
      const float update = rectified_dot(in + x * channels, weights_.data(), channels) + bias_;
      example.out_logits.data()[voxel] = example.logits.data()[voxel] + update;
    }
  });
}

void Head::backward(const float* stream, FfnExample& example, double scale, float* out_stream_grad,
                    std::span<float> out_weight_grad, float& out_bias_grad) {
  const float *const logits = example.logits.data(), *const labels = example.labels.data();
  const float* const weights = example.weights.empty() ? nullptr : example.weights.data();
  float* const out_logits = example.out_logits.data();
  const std::int64_t channels = shape_.stored_out();
  const auto voxels = static_cast<double>(shape_.z * shape_.y * shape_.x);
  for_each_chunk(shape_.z * shape_.y, 1, chunks_, [&](std::int64_t, std::int64_t chunk, Range rows) {
    double* const sums = sums_.data() + chunk * (channels + 2);
    float* const row_weight_grad = scratch_.data() + chunk * (channels + shape_.x);
    float* const logit_grad = row_weight_grad + channels;
    std::fill_n(sums, channels + 2, 0.0);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float* const in = stream + row_offset(row);
      float* const grad = out_stream_grad + row_offset(row);
      for (std::int64_t x = 0; x < shape_.x; ++x) {
        const std::int64_t voxel = row * shape_.x + x;
        out_logits[voxel] = logits[voxel] + (rectified_dot(in + x * channels, weights_.data(), channels) + bias_);
        const double weight = weights == nullptr ? 1.0 : double{weights[voxel]};
        const CrossEntropy entropy = cross_entropy(double{out_logits[voxel]}, double{labels[voxel]});
        const double derivative = weight * (entropy.probability - double{labels[voxel]}) * (scale / voxels);
        logit_grad[x] = static_cast<float>(derivative);
        sums[channels] += derivative;
        sums[channels + 1] += weight * entropy.loss;
      }
      std::fill_n(row_weight_grad, channels, 0.0F);
      for (std::int64_t x = 0; x < shape_.x; ++x) {
        voxel_backward(in + x * channels, weights_.data(), logit_grad[x], channels, grad + x * channels, row_weight_grad);
      }
      for (std::int64_t c = 0; c < channels; ++c) sums[c] += double{row_weight_grad[c]};
    }
  });
  add_parts(chunks_, channels + 2, sums_.data());
  for (std::size_t c = 0; c < out_weight_grad.size(); ++c) {
    out_weight_grad[c] += static_cast<float>(sums_[static_cast<std::int64_t>(c)]);
  }
  out_bias_grad += static_cast<float>(sums_[channels]);
  example.loss = sums_[channels + 1] / voxels;
}

}  // namespace floodtide::nn
