// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/nn/network.hpp"
#include "floodtide/nn/segmentation_loss.hpp"

namespace floodtide::nn {

/// Input and output of one training pass.
struct SampleBatch {
  View<const float, 5> images;  ///< [n, z, y, x, in_channels]; z, y and x are multiples of total_pool()
  SegmentationTruth truth;
  int groups = 1;                           ///< each group of n / groups consecutive images has its own batch norm statistics
  std::span<const std::uint64_t> examples;  ///< needed for dropout: one number per image; selects the values to drop
  View<float, 5> out_probabilities;         ///< [n, z, y, x, outputs], or empty
};

/// A network that predicts all voxels of an image in one pass. Samples train and score it.
class SampleNetwork : public Network {
 public:
  /// Return the channels of an image.
  [[nodiscard]] virtual std::int64_t in_channels() const noexcept = 0;
  /// Return the number of outputs of a voxel: classes, or channels.
  [[nodiscard]] virtual std::int64_t outputs() const noexcept = 0;
  [[nodiscard]] virtual Output output() const noexcept = 0;
  /// Return of what sizes (z, y, x) of training images must be multiples.
  [[nodiscard]] virtual Vec3 total_pool() const noexcept = 0;

  /// Compute the probabilities [n, z, y, x, outputs] of images [n, z, y, x, in_channels] of any size.
  /// Throws Error(shape_mismatch) for another number of channels, for empty images, and for a wrong output shape.
  virtual void forward(View<const float, 5> images, View<float, 5> out_probabilities) = 0;

  /// Compute the loss and its gradients in one training pass.
  ///
  /// @param gradients      in the order of layout(); the results of this rank are added, and the sum over ranks is the result.
  ///                       Trained arrays: scale * d(sum of the losses of all images of all ranks)/d(parameters). Statistics:
  ///                       scale * (sum over images of the mean or variance of the image's group). With scale = 1 / (images
  ///                       of all ranks), this is the gradient of the mean loss for any split of images over ranks.
  /// @param on_ready       called with the index of each entry of layout() when its part of `gradients` is complete: first
  ///                       the statistics, then the last layer, and so on to the first layer
  /// @param sum_over_ranks needed for the Dice over the batch and for synchronised statistics; empty on one rank
  /// Throws Error(shape_mismatch) for wrong shapes, and Error(invalid_argument) for a label that is neither a class nor
  /// kNotCounted. Both happen before the first call of sum_over_ranks. A loss that is not finite does not throw.
  virtual LossReport loss_and_gradients(const SampleBatch& batch, const SegmentationLoss& loss, std::span<float> gradients,
                                        double scale, const OnReady& on_ready = {},
                                        const SumOverRanks& sum_over_ranks = {}) = 0;
  /// Return how often a training pass with this loss calls sum_over_ranks.
  [[nodiscard]] virtual std::int64_t sums_per_pass(const SegmentationLoss& loss) const noexcept = 0;
  /// Return the largest possible count of numbers in one call of sum_over_ranks.
  [[nodiscard]] virtual std::int64_t longest_sum() const noexcept = 0;

 protected:
  using Network::Network;
};

}  // namespace floodtide::nn
