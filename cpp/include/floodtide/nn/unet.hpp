// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "floodtide/kernels/dispatch.hpp"
#include "floodtide/nn/initial.hpp"
#include "floodtide/nn/ready.hpp"
#include "floodtide/nn/segmentation_loss.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::nn {

/// A network for slices is one for volumes whose kernels and pools have one element along z.
struct UNetOptions {
  int in_channels = 1;  ///< of the images, at least 1
  int classes = 2;      ///< outputs: 2 to kMostClasses for softmax, 1 to kMostClasses for sigmoid
  int depth = 5;        ///< levels of resolution, at least 1
  int features = 16;    ///< channels of the first level, a multiple of 16; each further level has twice as many
  std::vector<Vec3> kernels = {{1, 3, 3}};  ///< of the convolutions (1 or 3 each): one for all levels, or one a level
  std::vector<Vec3> pools = {{1, 2, 2}};    ///< from level to level (1 to 4 each): one for all, or depth - 1
  Output output = Output::softmax;
  bool batch_norm = true;
  bool synchronised = false;  ///< batch norm's statistics over all images of all ranks, not of each group
  double dropout = 0;         ///< share of the lowest level's outputs that training drops, from 0 to below 1
  std::uint64_t seed = 0;     ///< of the initial weights and of dropout
  kernels::Compute compute = kernels::Compute::fp32;
  std::string kernel = {};  ///< of all convolutions, by name, for comparisons; empty for the usual choice
};

/// Where the parameters of a network of these options lie. Throws Error(invalid_argument) for options outside their ranges.
[[nodiscard]] ParameterLayout parameter_layout(const UNetOptions& options);

/// What one training pass works on. Images are [n, z, y, x, in_channels]; each extent is a multiple of total_pool().
struct UNetBatch {
  View<const float, 5> images;
  SegmentationTruth truth;
  int groups = 1;                           ///< n / groups consecutive images each have their own batch norm statistics
  std::span<const std::uint64_t> examples;  ///< with dropout: a number for each image; it decides what is dropped
  View<float, 5> out_probabilities;         ///< [n, z, y, x, classes], or empty
};

/// A U-Net: on each level two convolutions, each with batch norm and ReLU; max pooling to the next level; back up by transposed
/// convolutions (kernel = stride = pool), whose outputs follow the level's own in the concatenation; last a 1x1x1 convolution.
/// Zero padding: the output has the input's size.
///
/// With batch norm the convolutions before it have no biases, which it would remove. Its statistics are sums in double;
/// variances are biased where they normalise and unbiased in the moving statistics, its epsilon is 1e-5 (as PyTorch's).
/// Statistics move by kStatisticsMomentum.
///
/// The first pass of a size plans its memory; further passes of that size and number of images allocate nothing. Passes run
/// on num_threads() threads with bitwise the same result on any number. Not to be used by two threads at once.
///
/// Source: Ronneberger et al., MICCAI 2015; Çiçek et al., MICCAI 2016; Ioffe and Szegedy, ICML 2015.
class UNet {
 public:
  /// Convolutions before a ReLU: normal numbers of variance 2 / (taps * in) (He et al., ICCV 2015), transposed and last
  /// convolution: 1 / in. Biases and shifts 0, scales 1. Throws Error(invalid_argument) for options outside their ranges.
  explicit UNet(const UNetOptions& options, Initial initial = Initial::random);
  UNet(UNet&&) noexcept;
  UNet& operator=(UNet&&) noexcept;
  ~UNet();

  [[nodiscard]] const UNetOptions& options() const noexcept;
  /// What the extents of training images must be multiples of: the product of all pools.
  [[nodiscard]] Vec3 total_pool() const noexcept;

  /// "encoder0/conv_a/weights" [kz, ky, kx, in, out], "encoder0/norm_a/scale" [out], "encoder0/norm_a/shift" [out], ...,
  /// "decoder0/up/weights" [pz, py, px, in, out], "decoder0/up/biases" [out], ..., "head/weights", "head/biases". The decoder
  /// of a level has the level's number. After all that is trained batch norm's moving statistics, with which forward()
  /// normalises: "encoder0/norm_a/mean" [out] (at first 0), "encoder0/norm_a/variance" [out] (at first 1), ...
  [[nodiscard]] const ParameterLayout& layout() const noexcept;
  /// All parameters in the order of layout(). After writing through the span call parameters_changed().
  [[nodiscard]] std::span<float> parameters() noexcept;
  [[nodiscard]] std::span<const float> parameters() const noexcept;
  void parameters_changed() noexcept;

  /// Moves the statistics by kStatisticsMomentum towards those in `gradients`, divided by the number of images that they sum.
  void move_statistics(std::span<const float> gradients, double images);

  /// Probabilities [n, z, y, x, classes] of images [n, z, y, x, in_channels] of any size: inside, zeros follow each axis up to
  /// a multiple of total_pool(). Throws Error(shape_mismatch) for other channels or an empty image.
  void forward(View<const float, 5> images, View<float, 5> out_probabilities);

  /// One training pass.
  ///
  /// @param gradients      in the order of layout(); added to them, so that they sum up over all ranks: of what is trained,
  ///                       scale * d(sum over the images of all ranks of their losses)/d(parameters); of statistics, scale *
  ///                       (sum over images of the mean or variance of the image's group). With scale = 1 / (images of all
  ///                       ranks) that is the gradient of the mean loss, however the images are split over groups and ranks.
  /// @param on_ready       called with each entry of layout() as soon as its part is final: the last layer's first
  /// @param sum_over_ranks for the Dice over the batch and synchronised statistics; empty on one rank
  /// Throws Error(shape_mismatch) for shapes that do not fit, Error(invalid_argument) for a label that is no class, both before
  /// the first sum over ranks. A loss that is not finite is returned as it is.
  LossReport loss_and_gradients(const UNetBatch& batch, const SegmentationLoss& loss, std::span<float> gradients, double scale,
                                const OnReady& on_ready = {}, const SumOverRanks& sum_over_ranks = {});
  /// How often a training pass with this loss calls sum_over_ranks, and the most numbers that one call has.
  [[nodiscard]] std::int64_t sums_per_pass(const SegmentationLoss& loss) const noexcept;
  [[nodiscard]] std::int64_t longest_sum() const noexcept;

  /// Bytes of activations and gradients planned so far (without the convolutions' packed weights).
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// Kernel of each convolution for the last size used; empty before the first pass.
  [[nodiscard]] std::string kernel_names() const;
  /// Floating-point operations of one image's training step as direct convolution: three passes, less the first backward-data.
  [[nodiscard]] double step_flops(const Vec3& size) const noexcept;
  [[nodiscard]] double forward_flops(const Vec3& size) const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace floodtide::nn
