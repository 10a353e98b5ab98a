// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "floodtide/base/named.hpp"
#include "floodtide/nn/ready.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::nn {

/// What a network's last layer makes of its logits.
enum class Output {
  softmax,  ///< classes that exclude each other: one label a voxel
  sigmoid   ///< independent channels, such as affinities: one target in [0, 1] for each
};
constexpr Names<Output, 2> names_of(Output) {
  return {"output", {{{"softmax", Output::softmax}, {"sigmoid", Output::sigmoid}}}};
}

inline constexpr int kMostClasses = 32;
inline constexpr std::uint8_t kNotCounted = 255;  ///< label of voxels that are left out of losses and counts

/// The loss: dice * (1 - soft Dice) + cross_entropy * cross-entropy.
///
/// Soft Dice of class k is (2 I + smooth) / (P + G + smooth) with I = sum of w p g, P = sum of w p, G = sum of w g over voxels;
/// p is the probability, g the truth and w the voxel's weight (labels: 0 where not counted, else 1). It is averaged over
/// classes. Cross-entropy: sum over voxels of w times the cross-entropy, divided by the number of voxels (of voxels times
/// channels for sigmoids), counted or not, as elsewhere in this project: so the mean over images does not depend on how they
/// are split.
///
/// Source: Milletari et al., "V-Net", 3DV 2016, with sums of p and g in place of squares; docs/algorithms.md.
struct SegmentationLoss {
  double dice = 1;           ///< weight of the Dice term, at least 0
  double cross_entropy = 1;  ///< weight of the cross-entropy, at least 0; one of both is positive
  bool over_batch = false;   ///< one Dice over all images of all ranks, instead of the mean of each image's own
  bool background = false;   ///< class 0 has part in the Dice; for softmax of two and more classes
  double smooth = 1;         ///< added to both sides of Dice's fraction, at least 0
};
/// "dice", "cross_entropy" or "dice+cross_entropy", each with weights of 1. Throws Error(invalid_argument) for another name.
[[nodiscard]] SegmentationLoss segmentation_loss_named(std::string_view name);
/// Throws Error(invalid_argument) for weights or a smooth term outside their ranges.
void check(const SegmentationLoss& loss);

/// What one class or channel was predicted to be (the largest probability; sigmoids: at least 0.5) against what it is.
struct ClassCounts {
  double true_positives = 0, false_positives = 0, false_negatives = 0;
};

/// Sums over the images of one pass. With `over_batch` each image has the Dice of all.
struct LossReport {
  double loss = 0;
  double dice = 0;  ///< the soft Dice itself: 1 is perfect
  double cross_entropy = 0;
  std::array<ClassCounts, kMostClasses> counts{};  ///< voxels
};

/// Truth of a batch of n images. Softmax reads labels, sigmoid targets and, where they are not empty, weights.
struct SegmentationTruth {
  View<const std::uint8_t, 4> labels;  ///< [n, z, y, x]: class, or kNotCounted
  View<const float, 5> targets;        ///< [n, z, y, x, channels] in [0, 1]
  View<const float, 5> weights;        ///< [n, z, y, x, channels], at least 0
};

/// The loss of given logits [n, z, y, x, classes] and the gradient of the sum over all images (of all ranks) by them: what the
/// network does as its last step.
///
/// @param out_probabilities, out_gradient of the logits' shape
/// Throws Error(shape_mismatch) for unequal shapes and Error(invalid_argument) for a label that is neither a class nor
/// kNotCounted.
LossReport segmentation_loss(const SegmentationLoss& loss, Output output, View<const float, 5> logits,
                             const SegmentationTruth& truth, View<float, 5> out_probabilities, View<float, 5> out_gradient,
                             const SumOverRanks& sum_over_ranks = {});

}  // namespace floodtide::nn
