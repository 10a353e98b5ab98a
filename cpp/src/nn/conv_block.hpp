// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/nn/unet.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/pointwise/pointwise.hpp"
#include "nn/grid.hpp"

namespace floodtide::nn {

/// Parameters of a block, or their gradients. With batch norm, `biases` is empty; without, only `weights` and `biases` are not.
template <class T>
struct BlockParameters {
  std::span<T> weights, biases, scale, shift, mean, variance;
};

/// All channels of an activation, or a part of them in a concatenation.
template <class T>
struct Channels {
  T* data;              ///< begin of the activation, plus the index of the first channel
  std::int64_t stored;  ///< number of stored channels of the whole activation
};

/// Convolution, batch norm (or a bias) and ReLU.
///
/// A block stores only `before`, the output of its convolution. Whoever reads the block's output normalises it again, a band at
/// a time, so that it stays in the cache: memory is slower than this computation. All pointers are to the first unit of a band.
/// A forward pass with the moving statistics is *folded*: they and the ReLU are part of the convolution, so `before` is the
/// block's output.
///
/// Batch norm needs sums over all units of a group before it can scale the first one. A training pass therefore calls
/// convolve() and sum_outputs() for all bands, then finish_statistics(), then normalise(). The backward pass calls
/// sum_gradients() for all units, then finish_gradients(), then for each band gradient(), backward_weights() and
/// backward_data().
class ConvBlock {
 public:
  /// @param in, out numbers of channels; `out` is a multiple of 16
  ConvBlock(const Grid& grid, const Vec3& kernel, std::int64_t in, std::int64_t out, int groups, const UNetOptions& options);

  /// @param passes only forward: the next passes are folded
  void set_parameters(const BlockParameters<const float>& parameters, kernels::Passes passes, Workspace& workspace);
  [[nodiscard]] bool folded() const noexcept { return folded_; }

  /// Return the number of units of a band. Bands lie within groups, and are not larger with more groups.
  [[nodiscard]] static std::int64_t band_units(const Grid& grid, std::int64_t out, int groups);
  [[nodiscard]] std::int64_t band_units() const noexcept { return band_.units(); }

  /// @param input its halo is zero
  void convolve(const float* input, float* before, Workspace& workspace) const {
    convolution_.forward(input, kernels::Activation::none, nullptr, folded_, before, workspace);
  }
  void sum_outputs(Range units, const float* before);
  /// `scale` times the mean of the statistics over the groups of this rank is added to the mean and variance of `gradients`.
  void finish_statistics(const BlockParameters<float>& gradients, double scale, const SumOverRanks& sum_over_ranks);
  /// Return the factors that turn `before` into the input of the ReLU.
  [[nodiscard]] kernels::pointwise::Affine affine(std::int64_t unit) const noexcept;
  /// Computes the output of the block. @param units of one group
  void normalise(Range units, const float* before, Channels<float> out) const;

  /// @param grad gradient by the output of the block
  void sum_gradients(Range units, const float* before, const float* grad);
  void finish_gradients(const BlockParameters<float>& gradients, const SumOverRanks& sum_over_ranks);
  /// Computes the gradient by `before`.
  void gradient(Range units, const float* before, const float* grad, float* out_before_grad) const;
  /// Adds to the gradients of the weights, and of the biases without batch norm. Halos of both activations are zero.
  void backward_weights(const float* input, const float* before_grad, const BlockParameters<float>& gradients,
                        Workspace& workspace);
  void backward_data(const float* before_grad, float* out_input_grad, Workspace& workspace) const {
    convolution_.backward_data(before_grad, nullptr, false, out_input_grad, workspace);
  }

  [[nodiscard]] const Grid& grid() const noexcept { return grid_; }
  [[nodiscard]] const Grid& band() const noexcept { return band_; }
  [[nodiscard]] std::int64_t channels() const noexcept { return channels_; }
  [[nodiscard]] const kernels::Conv3d& convolution() const noexcept { return convolution_; }

 private:
  /// Factors and sums of batch norm for one group.
  struct Statistics {
    std::int64_t channels;
    // forward pass, as in kernels::pointwise::Affine
    AlignedBuffer<float> scale{channels}, shift{channels};
    // backward pass, as in kernels::pointwise::AffineGradient
    AlignedBuffer<float> slope{channels}, curve{channels}, mean{channels}, offset{channels};
    AlignedBuffer<double> inverse_deviation{channels};
    AlignedBuffer<double> sums{2 * channels + 1};  // two sums per channel, then the number of voxels
  };

  /// Computes partial sums: calls body(row of the band, unit, sums) for all rows of the units.
  template <class Body>
  void sum(Range units, Body body);
  /// Adds the partial sums of each group.
  void add_sums();
  [[nodiscard]] std::int64_t units_of_group() const noexcept { return grid_.units() / std::ssize(groups_); }
  [[nodiscard]] const Statistics& group_of(std::int64_t unit) const noexcept {
    return groups_[static_cast<std::size_t>(unit / units_of_group())];
  }

  Grid grid_, band_;
  std::int64_t channels_;
  bool batch_norm_, synchronised_, folded_ = false;
  kernels::Conv3d convolution_;  // of a band
  const kernels::pointwise::Kernels* pointwise_;
  AlignedBuffer<float> weights_scale_{channels_}, weights_shift_{channels_};  // of batch norm
  AlignedBuffer<float> no_biases_{channels_}, dropped_bias_grad_{channels_};
  std::vector<Statistics> groups_;
  std::int64_t chunks_;                 // number of chunks per unit
  AlignedBuffer<double> partial_sums_;  // [units, chunks, 2, channels]
};

}  // namespace floodtide::nn
