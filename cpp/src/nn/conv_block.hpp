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

/// Parameters of a block, or their gradients. With batch norm, `biases` is empty; without, `scale` and `shift` are empty.
template <class T>
struct BlockParameters {
  std::span<T> weights, biases, scale, shift;
};

/// All channels of an activation, or a part of them in a concatenation.
template <class T>
struct Channels {
  T* data;              ///< begin of the activation, plus the index of the first channel
  std::int64_t stored;  ///< number of stored channels of the whole activation
};

/// Convolution, batch norm (or a bias) and ReLU. From the output of the convolution, the backward pass recomputes which values
/// passed the ReLU.
class ConvBlock {
 public:
  struct Options {
    bool batch_norm, synchronised;
    kernels::Compute compute;
    std::string_view kernel;
  };
  /// @param in, out numbers of channels; `out` is a multiple of 16
  ConvBlock(const Grid& grid, const Vec3& kernel, std::int64_t in, std::int64_t out, int groups, const Options& options);

  void set_parameters(const BlockParameters<const float>& parameters, std::span<const float> moving_mean,
                      std::span<const float> moving_variance, kernels::Passes passes);

  /// Runs the block with the moving statistics. @param before memory for the output of the convolution; overwritten
  void forward(const float* input, float* before, Channels<float> out) const;
  /// Runs the block with the statistics of the batch. `scale` times the mean of the statistics over the groups of this rank is
  /// added to out_mean and out_variance.
  void forward_training(const float* input, float* before, Channels<float> out, std::span<float> out_mean,
                        std::span<float> out_variance, double scale, const SumOverRanks& sum_over_ranks);
  /// Runs the backward pass, and adds to `gradients`.
  /// @param before         output of the convolution, from forward_training
  /// @param grad           gradient by the output of the block
  /// @param scratch        activation with a halo of zeros. Its interior is overwritten. May be `grad`, if `grad` is a whole
  ///                       activation.
  /// @param out_input_grad gradient by the input; null: not computed
  void backward(const float* input, const float* before, Channels<const float> grad, float* scratch, float* out_input_grad,
                const BlockParameters<float>& gradients, const SumOverRanks& sum_over_ranks);

  [[nodiscard]] const Grid& grid() const noexcept { return grid_; }
  [[nodiscard]] std::int64_t channels() const noexcept { return channels_; }
  [[nodiscard]] const kernels::Conv3d& convolution() const noexcept { return convolution_; }

 private:
  /// Factors and sums of batch norm for one group. All arrays but `sums` have [channels] elements.
  struct Statistics {
    explicit Statistics(std::int64_t channels);
    AlignedBuffer<float> scale, shift;                // forward pass, as in kernels::pointwise::Affine
    AlignedBuffer<float> slope, curve, mean, offset;  // backward pass, as in kernels::pointwise::AffineGradient
    AlignedBuffer<double> inverse_deviation;
    AlignedBuffer<double> sums;  // two sums per channel, then the number of voxels
  };

  /// Computes the sums of each group: calls body(row, group, sums) for all rows.
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
  AlignedBuffer<float> weights_scale_, weights_shift_;  // parameters of batch norm; 1 and 0 without batch norm
  AlignedBuffer<float> moving_scale_, moving_shift_;    // factors of the forward pass with the moving statistics
  AlignedBuffer<float> no_biases_, dropped_bias_grad_;
  std::vector<Statistics> groups_;
  std::int64_t chunks_;                 // number of chunks per group
  AlignedBuffer<double> partial_sums_;  // [groups, chunks, 2, channels]
};

}  // namespace floodtide::nn
