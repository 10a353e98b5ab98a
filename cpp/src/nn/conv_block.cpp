// SPDX-License-Identifier: Apache-2.0
#include "nn/conv_block.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/pointwise/dispatch.hpp"

namespace floodtide::nn {
namespace {

using kernels::pointwise::Affine;

constexpr double kEpsilon = 1e-5;  // added to the variances

// The output of a band, its gradients and the input should stay in the last-level cache.
constexpr std::int64_t kBandBytes = std::int64_t{4} << 20;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

std::int64_t ConvBlock::band_units(const Grid& grid, std::int64_t out, int groups) {
  if (!grid.planar) return 1;  // a convolution knows only one volume
  // Return the largest divisor of the units of a group whose output has at most kBandBytes.
  const std::int64_t of_group = grid.units() / groups;
  for (std::int64_t bands = 1; bands < of_group; ++bands) {
    if (of_group % bands != 0) continue;
    const std::int64_t units = of_group / bands;
    if (units * grid.unit_floats(out) * std::int64_t{sizeof(float)} <= kBandBytes) return units;
  }
  return 1;
}

ConvBlock::ConvBlock(const Grid& grid, const Vec3& kernel, std::int64_t in, std::int64_t out, int groups,
                     const UNetOptions& options)
    : grid_(grid),
      band_(band_grid(grid, band_units(grid, out, groups))),
      channels_(out),
      batch_norm_(options.batch_norm),
      synchronised_(options.synchronised),
      convolution_({band_.z, band_.y, band_.x, in, out, kernel[0], kernel[1], kernel[2]}, active_isa(), "", options.compute),
      pointwise_(&kernels::pointwise::kernels_at(active_isa())),
      chunks_(std::clamp<std::int64_t>(64 / grid.units(), std::min<std::int64_t>(8, grid.unit_rows()), grid.unit_rows())) {
  const int count = options.batch_norm && !options.synchronised ? groups : 1;
  for (int group = 0; group < count; ++group) {
    Statistics& added = groups_.emplace_back(Statistics{out});
    std::ranges::fill(added.scale.span(), 1.0F);
    std::ranges::fill(added.slope.span(), 1.0F);
  }
  partial_sums_ = AlignedBuffer<double>(options.batch_norm ? grid.units() * chunks_ * 2 * out : 0);
}

void ConvBlock::set_parameters(const BlockParameters<const float>& parameters, kernels::Passes passes, Workspace& workspace) {
  folded_ = passes == kernels::Passes::forward;
  if (!batch_norm_) {
    convolution_.set_weights(parameters.weights.data(), parameters.biases.data(), workspace, passes);
    return;
  }
  std::ranges::copy(parameters.scale, weights_scale_.data());
  std::ranges::copy(parameters.shift, weights_shift_.data());
  if (!folded_) {
    convolution_.set_weights(parameters.weights.data(), no_biases_.data(), workspace, passes);
    return;
  }
  std::vector<double> factors(at(channels_));
  std::vector<float> weights(parameters.weights.size()), biases(at(channels_));
  for (std::size_t c = 0; c < biases.size(); ++c) {
    factors[c] = double{parameters.scale[c]} / std::sqrt(double{parameters.variance[c]} + kEpsilon);
    biases[c] = static_cast<float>(double{parameters.shift[c]} - factors[c] * double{parameters.mean[c]});
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(factors[i % factors.size()] * double{parameters.weights[i]});
  }
  convolution_.set_weights(weights.data(), biases.data(), workspace, passes);
  for (Statistics& group : groups_) {
    std::ranges::fill(group.scale.span(), 1.0F);
    std::ranges::fill(group.shift.span(), 0.0F);
  }
}

Affine ConvBlock::affine(std::int64_t unit) const noexcept {
  const Statistics& group = group_of(unit);
  return {group.scale.data(), group.shift.data()};
}

void ConvBlock::normalise(Range units, const float* before, Channels<float> out) const {
  const Affine factors = affine(units.begin);
  for_each_row(units.size() * grid_.unit_rows(), [&](std::int64_t row) {
    pointwise_->normalise(before + grid_.offset(row, channels_), factors, grid_.x, channels_,
                          out.data + grid_.offset(row, out.stored), out.stored);
  });
}

template <class Body>
void ConvBlock::sum(Range units, Body body) {
  const std::int64_t each = 2 * channels_;
  const std::int64_t count = units.size();
  for_each_chunk(count * grid_.unit_rows(), count, chunks_, [&](std::int64_t in_band, std::int64_t chunk, Range rows) {
    const std::int64_t unit = units.begin + in_band;
    double* const sums = partial_sums_.data() + (unit * chunks_ + chunk) * each;
    std::fill_n(sums, each, 0.0);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) body(row, unit, sums);
  });
}

void ConvBlock::add_sums() {
  const std::int64_t each = 2 * channels_, parts = units_of_group() * chunks_;
  for (std::int64_t group = 0; group < std::ssize(groups_); ++group) {
    const std::span<double> sums = groups_[at(group)].sums.span();
    std::ranges::fill(sums, 0.0);
    for (std::int64_t part = group * parts; part < (group + 1) * parts; ++part) {
      for (std::int64_t i = 0; i < each; ++i) sums[at(i)] += partial_sums_[part * each + i];
    }
    sums.back() = static_cast<double>(units_of_group() * grid_.unit_rows() * grid_.x);
  }
}

void ConvBlock::sum_outputs(Range units, const float* before) {
  if (!batch_norm_) return;
  sum(units, [&](std::int64_t row, std::int64_t, double* sums) {
    pointwise_->sums(before + grid_.offset(row, channels_), grid_.x, channels_, sums);
  });
}

void ConvBlock::finish_statistics(const BlockParameters<float>& gradients, double scale, const SumOverRanks& sum_over_ranks) {
  if (!batch_norm_) return;
  add_sums();
  const double share = scale / static_cast<double>(groups_.size());
  for (Statistics& group : groups_) {
    if (synchronised_ && sum_over_ranks) sum_over_ranks(group.sums.span());
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
      gradients.mean[at(c)] += static_cast<float>(share * mean);
      gradients.variance[at(c)] += static_cast<float>(share * variance * (count > 1 ? count / (count - 1) : 1.0));
    }
  }
}

void ConvBlock::sum_gradients(Range units, const float* before, const float* grad) {
  if (!batch_norm_) return;
  sum(units, [&](std::int64_t row, std::int64_t unit, double* sums) {
    const std::int64_t offset = grid_.offset(row, channels_);
    pointwise_->gradient_sums(before + offset, affine(unit), grad + offset, channels_, grid_.x, channels_, sums);
  });
}

void ConvBlock::finish_gradients(const BlockParameters<float>& gradients, const SumOverRanks& sum_over_ranks) {
  if (!batch_norm_) return;
  add_sums();
  for (Statistics& group : groups_) {
    // Computes the sum of g * normalised x from the sums of g * x and of g. Gradients of scale and shift are sums of this rank
    // only.
    const auto of_normalised = [&](std::int64_t c) {
      return group.inverse_deviation[c] * (group.sums[channels_ + c] - double{group.mean[c]} * group.sums[c]);
    };
    for (std::int64_t c = 0; c < channels_; ++c) {
      gradients.scale[at(c)] += static_cast<float>(of_normalised(c));
      gradients.shift[at(c)] += static_cast<float>(group.sums[c]);
    }
    if (synchronised_ && sum_over_ranks) sum_over_ranks(group.sums.span());
    const double count = group.sums[2 * channels_];
    for (std::int64_t c = 0; c < channels_; ++c) {
      const double slope = double{weights_scale_[c]} * group.inverse_deviation[c];
      group.slope[c] = static_cast<float>(slope);
      group.curve[c] = static_cast<float>(-slope * group.inverse_deviation[c] * of_normalised(c) / count);
      group.offset[c] = static_cast<float>(-slope * group.sums[c] / count);
    }
  }
}

void ConvBlock::gradient(Range units, const float* before, const float* grad, float* out_before_grad) const {
  const Statistics& group = group_of(units.begin);
  for_each_row(units.size() * grid_.unit_rows(), [&](std::int64_t row) {
    const std::int64_t offset = grid_.offset(row, channels_);
    pointwise_->gradient(before + offset, {group.scale.data(), group.shift.data()},
                         {group.slope.data(), group.curve.data(), group.mean.data(), group.offset.data()}, grad + offset,
                         channels_, grid_.x, channels_, out_before_grad + offset);
  });
}

void ConvBlock::backward_weights(const float* input, const float* before_grad, const BlockParameters<float>& gradients,
                                 Workspace& workspace) {
  float* const bias_grad = batch_norm_ ? dropped_bias_grad_.data() : gradients.biases.data();
  convolution_.backward_weights(input, kernels::Activation::none, before_grad, gradients.weights.data(), bias_grad, workspace);
}

}  // namespace floodtide::nn
