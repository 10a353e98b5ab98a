// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "floodtide/base/named.hpp"
#include "floodtide/nn/network.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::nn {

/// How the last layer of a network turns logits into probabilities.
enum class Output {
  softmax,  ///< classes that exclude each other: one label per voxel
  sigmoid   ///< independent channels, such as affinities: one target in [0, 1] per voxel and channel
};
constexpr Names<Output, 2> names_of(Output) {
  return {"output", {{{"softmax", Output::softmax}, {"sigmoid", Output::sigmoid}}}};
}

inline constexpr int kMostClasses = 32;
inline constexpr std::uint8_t kNotCounted = 255;  ///< label of voxels that do not count in losses and scores

/// Loss of segmentation: dice * (1 - soft Dice) + cross_entropy * cross-entropy.
///
/// The soft Dice of class k is (2 I + smooth) / (P + G + smooth). I, P and G are sums over voxels of w p g, w p and w g. Here p
/// is the probability, g the truth and w the weight of the voxel. With labels, w is 0 where the label is kNotCounted, and 1
/// elsewhere. The soft Dice is averaged over classes.
///
/// The cross-entropy is the sum over voxels of w times the cross-entropy, divided by the number of all voxels (for sigmoids:
/// voxels times channels). This number includes voxels that do not count, so that the mean over images does not depend on how
/// the images are split over ranks. With `focus`, the cross-entropy of a voxel is multiplied by (1 - q)^focus, where q is the
/// probability of its label (sigmoids: p g + (1 - p) (1 - g)), so that voxels that are predicted well count less.
///
/// Sources: Milletari et al., "V-Net", 3DV 2016, with sums of p and g in place of squares; Lin et al., "Focal Loss for Dense
/// Object Detection", ICCV 2017; docs/algorithms.md.
struct SegmentationLoss {
  double dice = 1;           ///< weight of the Dice term, at least 0
  double cross_entropy = 1;  ///< weight of the cross-entropy, at least 0; at least one of the two weights is positive
  double focus = 0;          ///< exponent of the focal loss: 0, or at least 1
  bool over_batch = false;   ///< true: one Dice over all images of all ranks; false: the mean of the Dice of each image
  bool background = false;   ///< true: the Dice includes class 0; used by softmax with at least two classes
  double smooth = 1;         ///< added to numerator and denominator of the Dice, at least 0
};
/// Row of the registry of named losses.
struct LossRow {
  std::string_view name;
  std::string_view help;
  SegmentationLoss loss;
};
[[nodiscard]] std::span<const LossRow> loss_rows();
/// Throws Error(invalid_argument) for numbers outside their ranges.
void check(const SegmentationLoss& loss);

/// Numbers of voxels by prediction and truth, for one class or channel. Softmax predicts the class with the largest
/// probability; sigmoids predict channels with a probability of at least 0.5.
struct ClassCounts {
  double true_positives = 0, false_positives = 0, false_negatives = 0;
  void add(const ClassCounts& other) noexcept {
    true_positives += other.true_positives;
    false_positives += other.false_positives;
    false_negatives += other.false_negatives;
  }
};

/// Sums over the images of one pass. With `over_batch`, every image contributes the Dice of the whole batch.
struct LossReport {
  double loss = 0;
  double dice = 0;           ///< soft Dice: 1 per image is perfect
  double cross_entropy = 0;  ///< nats, times (1 - q)^focus
  std::array<ClassCounts, kMostClasses> counts{};
};

/// Truth of a batch of n images. Softmax uses `labels`. Sigmoid uses `targets` and, unless it is empty, `weights`.
struct SegmentationTruth {
  View<const std::uint8_t, 4> labels;  ///< [n, z, y, x]: class, or kNotCounted
  View<const float, 5> targets;        ///< [n, z, y, x, channels] in [0, 1]
  View<const float, 5> weights;        ///< [n, z, y, x, channels], at least 0
};

/// Compute the loss, the probabilities and the gradient by the logits, as a network does in its last step.
///
/// @param logits            [n, z, y, x, classes]
/// @param out_probabilities shape of the logits
/// @param out_gradient      shape of the logits; gradient of the sum of losses over all images of all ranks
/// @param sum_over_ranks    called once if loss.over_batch and loss.dice > 0; empty on one rank
/// Throws Error(shape_mismatch) for unequal shapes and Error(invalid_argument) for a label that is neither a class nor
/// kNotCounted.
LossReport segmentation_loss(const SegmentationLoss& loss, Output output, View<const float, 5> logits,
                             const SegmentationTruth& truth, View<float, 5> out_probabilities, View<float, 5> out_gradient,
                             const SumOverRanks& sum_over_ranks = {});

}  // namespace floodtide::nn
