// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/nn/segmentation_loss.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/pointwise/pointwise.hpp"
#include "nn/grid.hpp"

namespace floodtide::nn {

/// A block's parameters, or their gradients. Without batch norm scale and shift are empty, with it biases are.
template <class T>
struct BlockParameters {
  std::span<T> weights, biases, scale, shift;
};

/// Some channels of an activation: all of them, or a part of a concatenation.
template <class T>
struct Channels {
  T* data;              ///< the activation's begin plus the first channel
  std::int64_t stored;  ///< of the activation
};

/// Convolution, batch norm (or a bias) and ReLU. The backward pass needs the convolution's output, from which it computes again
/// what the ReLU let through.
class ConvBlock {
 public:
  struct Options {
    bool batch_norm, synchronised;
    kernels::Compute compute;
    std::string_view kernel;
  };
  /// @param in, out channels; out is a multiple of 16
  ConvBlock(const Grid& grid, const Vec3& kernel, std::int64_t in, std::int64_t out, int groups, const Options& options);

  void set_parameters(const BlockParameters<const float>& parameters, std::span<const float> moving_mean,
                      std::span<const float> moving_variance, kernels::Passes passes);

  /// With the moving statistics. @param before activation for the convolution's output: overwritten
  void forward(const float* input, float* before, Channels<float> out) const;
  /// With the batch's statistics, which are added to out_mean and out_variance, times `scale` for each group.
  void forward_training(const float* input, float* before, Channels<float> out, std::span<float> out_mean,
                        std::span<float> out_variance, double scale, const SumOverRanks& sum_over_ranks);
  /// @param before         as forward_training left it
  /// @param grad           gradient by the output
  /// @param scratch        activation with a halo of zeros: its interior is overwritten; may be `grad` if that is not a part
  /// @param out_input_grad null if it is not wanted
  void backward(const float* input, const float* before, Channels<const float> grad, float* scratch, float* out_input_grad,
                const BlockParameters<float>& gradients, const SumOverRanks& sum_over_ranks);

  [[nodiscard]] const Grid& grid() const noexcept { return grid_; }
  [[nodiscard]] std::int64_t channels() const noexcept { return channels_; }
  [[nodiscard]] const kernels::Conv3d& convolution() const noexcept { return convolution_; }

 private:
  /// What normalises a group: [channels] each.
  struct Statistics {
    explicit Statistics(std::int64_t channels);
    AlignedBuffer<float> scale, shift;  // of the forward pass
    AlignedBuffer<float> slope, curve, mean, offset;
    AlignedBuffer<double> inverse_deviation;
    AlignedBuffer<double> sums;  // two for each channel, then the number of voxels
  };

  /// Fills each group's sums by body(row, group, sums) for all rows.
  template <class Body>
  void sum(Body body);
  void normalise(const float* before, Channels<float> out, const float* scale, const float* shift, std::int64_t first_row,
                 std::int64_t rows) const;
  [[nodiscard]] std::int64_t rows_of_group() const noexcept { return grid_.rows() / std::ssize(groups_); }

  Grid grid_;
  std::int64_t channels_;
  Options options_;
  kernels::Conv3d convolution_;
  const kernels::pointwise::Kernels* pointwise_;
  AlignedBuffer<float> weights_scale_, weights_shift_;  // batch norm's parameters; 1 and 0 without
  AlignedBuffer<float> moving_scale_, moving_shift_;    // what the moving statistics make of them
  AlignedBuffer<float> no_biases_, dropped_bias_grad_;
  std::vector<Statistics> groups_;
  std::int64_t chunks_;                 // of each group
  AlignedBuffer<double> partial_sums_;  // [groups, chunks, 2, channels]
};

}  // namespace floodtide::nn
