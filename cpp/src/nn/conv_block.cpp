// SPDX-License-Identifier: Apache-2.0
#include "nn/conv_block.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/pointwise/dispatch.hpp"

namespace floodtide::nn {
namespace {

using kernels::Activation;
using kernels::pointwise::Affine;
using kernels::pointwise::AffineGradient;

constexpr double kEpsilon = 1e-5;  // added to the variances

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

ConvBlock::Statistics::Statistics(std::int64_t channels)
    : scale(channels),
      shift(channels),
      slope(channels),
      curve(channels),
      mean(channels),
      offset(channels),
      inverse_deviation(channels),
      sums(2 * channels + 1) {
  std::ranges::fill(scale.span(), 1.0F);
  std::ranges::fill(slope.span(), 1.0F);
}

ConvBlock::ConvBlock(const Grid& grid, const Vec3& kernel, std::int64_t in, std::int64_t out, int groups,
                     const Options& options)
    : grid_(grid),
      channels_(out),
      options_(options),
      convolution_({grid.z, grid.y, grid.x, in, out, kernel[0], kernel[1], kernel[2]}, active_isa(), options.kernel,
                   options.compute),
      pointwise_(&kernels::pointwise::kernels_at(active_isa())),
      weights_scale_(out),
      weights_shift_(out),
      moving_scale_(out),
      moving_shift_(out),
      no_biases_(out),
      dropped_bias_grad_(out) {
  const int count = options.batch_norm && !options.synchronised ? groups : 1;
  for (int group = 0; group < count; ++group) groups_.emplace_back(out);
  chunks_ = chunks_of(grid.rows(), count);
  partial_sums_ = AlignedBuffer<double>(count * chunks_ * 2 * out);
}

void ConvBlock::set_parameters(const BlockParameters<const float>& parameters, std::span<const float> moving_mean,
                               std::span<const float> moving_variance, kernels::Passes passes) {
  const bool norm = options_.batch_norm;
  convolution_.set_weights(parameters.weights.data(), norm ? no_biases_.data() : parameters.biases.data(), passes);
  for (std::int64_t c = 0; c < channels_; ++c) {
    weights_scale_[c] = norm ? parameters.scale[at(c)] : 1.0F;
    weights_shift_[c] = norm ? parameters.shift[at(c)] : 0.0F;
    const double inverse = norm ? 1.0 / std::sqrt(double{moving_variance[at(c)]} + kEpsilon) : 1.0;
    const double scale = double{weights_scale_[c]} * inverse;
    moving_scale_[c] = static_cast<float>(scale);
    moving_shift_[c] = static_cast<float>(double{weights_shift_[c]} - (norm ? scale * double{moving_mean[at(c)]} : 0.0));
  }
}

void ConvBlock::forward(const float* input, float* before, Channels<float> out) const {
  const std::int64_t in_floats = grid_.example_floats(convolution_.shape().stored_in());
  const std::int64_t out_floats = grid_.example_floats(channels_);
  for (std::int64_t example = 0; example < grid_.examples; ++example) {
    convolution_.forward(input + example * in_floats, Activation::none, nullptr, false, before + example * out_floats);
  }
  normalise(before, out, moving_scale_.data(), moving_shift_.data(), 0, grid_.rows());
}

void ConvBlock::normalise(const float* before, Channels<float> out, const float* scale, const float* shift,
                          std::int64_t first_row, std::int64_t rows) const {
  for_each_chunk(rows, 1, chunks_of(rows, 1), [&](std::int64_t, std::int64_t, Range range) {
    for (std::int64_t row = first_row + range.begin; row < first_row + range.end; ++row) {
      pointwise_->normalise(before + grid_.offset(row, channels_), {scale, shift}, grid_.x, channels_,
                            out.data + grid_.offset(row, out.stored), out.stored);
    }
  });
}

template <class Body>
void ConvBlock::sum(Body body) {
  const std::int64_t each = 2 * channels_;
  std::ranges::fill(partial_sums_.span(), 0.0);
  for_each_chunk(grid_.rows(), std::ssize(groups_), chunks_, [&](std::int64_t group, std::int64_t chunk, Range rows) {
    double* const sums = partial_sums_.data() + (group * chunks_ + chunk) * each;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) body(row, groups_[at(group)], sums);
  });
  for (std::int64_t group = 0; group < std::ssize(groups_); ++group) {
    std::span<double> sums = groups_[at(group)].sums.span();
    std::ranges::fill(sums, 0.0);
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      const double* const part = partial_sums_.data() + (group * chunks_ + chunk) * each;
      for (std::int64_t i = 0; i < each; ++i) sums[at(i)] += part[i];
    }
    sums.back() = static_cast<double>(rows_of_group() * grid_.x);
  }
}

void ConvBlock::forward_training(const float* input, float* before, Channels<float> out, std::span<float> out_mean,
                                 std::span<float> out_variance, double scale, const SumOverRanks& sum_over_ranks) {
  if (!options_.batch_norm) return forward(input, before, out);
  const std::int64_t in_floats = grid_.example_floats(convolution_.shape().stored_in());
  const std::int64_t out_floats = grid_.example_floats(channels_);
  for (std::int64_t example = 0; example < grid_.examples; ++example) {
    convolution_.forward(input + example * in_floats, Activation::none, nullptr, false, before + example * out_floats);
  }
  sum([&](std::int64_t row, const Statistics&, double* sums) {
    pointwise_->sums(before + grid_.offset(row, channels_), grid_.x, channels_, sums);
  });
  const double share = scale / static_cast<double>(groups_.size());
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    Statistics& group = groups_[number];
    if (options_.synchronised && sum_over_ranks) sum_over_ranks(group.sums.span());
    const double count = group.sums[2 * channels_];
    for (std::int64_t c = 0; c < channels_; ++c) {
      const double mean = group.sums[c] / count;
      // Rounding errors may make the difference negative.
      const double variance = std::max(group.sums[channels_ + c] / count - mean * mean, 0.0);
      const double inverse = 1.0 / std::sqrt(variance + kEpsilon);
      const double factor = double{weights_scale_[c]} * inverse;
      group.inverse_deviation[c] = inverse;
      group.mean[c] = static_cast<float>(mean);
      group.scale[c] = static_cast<float>(factor);
      group.shift[c] = static_cast<float>(double{weights_shift_[c]} - mean * factor);
      out_mean[at(c)] += static_cast<float>(share * mean);
      out_variance[at(c)] += static_cast<float>(share * variance * (count > 1 ? count / (count - 1) : 1.0));
    }
    const std::int64_t rows = rows_of_group();
    normalise(before, out, group.scale.data(), group.shift.data(), static_cast<std::int64_t>(number) * rows, rows);
  }
}

void ConvBlock::backward(const float* input, const float* before, Channels<const float> grad, float* scratch,
                         float* out_input_grad, const BlockParameters<float>& gradients, const SumOverRanks& sum_over_ranks) {
  if (options_.batch_norm) {
    sum([&](std::int64_t row, const Statistics& group, double* sums) {
      pointwise_->gradient_sums(before + grid_.offset(row, channels_), {group.scale.data(), group.shift.data()},
                                grad.data + grid_.offset(row, grad.stored), grad.stored, grid_.x, channels_, sums);
    });
    for (Statistics& group : groups_) {
      // The sum of g * normalised x, from the sums of g * x and of g. The gradients of scale and shift are those of this rank.
      const auto of_normalised = [&](std::int64_t c) {
        return group.inverse_deviation[c] * (group.sums[channels_ + c] - double{group.mean[c]} * group.sums[c]);
      };
      for (std::int64_t c = 0; c < channels_; ++c) {
        gradients.scale[at(c)] += static_cast<float>(of_normalised(c));
        gradients.shift[at(c)] += static_cast<float>(group.sums[c]);
      }
      if (options_.synchronised && sum_over_ranks) sum_over_ranks(group.sums.span());
      const double count = group.sums[2 * channels_];
      for (std::int64_t c = 0; c < channels_; ++c) {
        const double slope = double{weights_scale_[c]} * group.inverse_deviation[c];
        group.slope[c] = static_cast<float>(slope);
        group.curve[c] = static_cast<float>(-slope * group.inverse_deviation[c] * of_normalised(c) / count);
        group.offset[c] = static_cast<float>(-slope * group.sums[c] / count);
      }
    }
  }
  for_each_chunk(grid_.rows(), std::ssize(groups_), chunks_, [&](std::int64_t number, std::int64_t, Range rows) {
    const Statistics& group = groups_[at(number)];
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t here = grid_.offset(row, channels_);
      pointwise_->gradient(before + here, {group.scale.data(), group.shift.data()},
                           {group.slope.data(), group.curve.data(), group.mean.data(), group.offset.data()},
                           grad.data + grid_.offset(row, grad.stored), grad.stored, grid_.x, channels_, scratch + here);
    }
  });
  float* const bias_grad = options_.batch_norm ? dropped_bias_grad_.data() : gradients.biases.data();
  const std::int64_t in_floats = grid_.example_floats(convolution_.shape().stored_in());
  const std::int64_t out_floats = grid_.example_floats(channels_);
  for (std::int64_t example = 0; example < grid_.examples; ++example) {
    const float* const output_grad = scratch + example * out_floats;
    convolution_.backward_weights(input + example * in_floats, Activation::none, output_grad, gradients.weights.data(),
                                  bias_grad);
    if (out_input_grad == nullptr) continue;
    convolution_.backward_data(output_grad, nullptr, false, out_input_grad + example * in_floats);
  }
}

}  // namespace floodtide::nn
