// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::evaluate {

/// Scores of a yes/no decision for each voxel. 0/0 is defined as 0.
struct BinaryScores {
  double accuracy;   ///< (TP + TN) / all
  double precision;  ///< TP / (TP + FP)
  double recall;     ///< TP / (TP + FN)
  double f1;         ///< 2 TP / (2 TP + FP + FN)
  double mcc;        ///< Matthews correlation coefficient
};

/// Numbers of voxels by outcome of a yes/no decision.
struct BinaryCounts {
  std::int64_t true_positive = 0;
  std::int64_t false_positive = 0;
  std::int64_t true_negative = 0;
  std::int64_t false_negative = 0;

  [[nodiscard]] BinaryScores scores() const;
};

/// Counts that compare predicted logits of an object mask with soft labels.
///
/// All counts are integers. Sums over fields of view, walkers and ranks are therefore exact in any order. The cross-entropy is
/// a real number, so add() returns it for each field of view. To get the same sum on any number of ranks, add these numbers in
/// the order of the fields of view.
class VoxelCounts {
 public:
  /// A voxel counts as object if its probability is at least this value. The comparison uses logits.
  static constexpr std::array<double, 2> kThresholds{0.5, 0.9};
  /// Number of bins of the histogram of logits. The bins have equal width and cover [-kLogitRange, kLogitRange). Logits outside
  /// this range go into the first or last bin.
  static constexpr std::int64_t kBins = 4096;
  static constexpr float kLogitRange = 16.0F;

  VoxelCounts();

  /// Count one field of view. A label above 0.5 means object.
  ///
  /// @param logits [z, y, x] updated logits
  /// @param labels [z, y, x] probabilities in [0, 1]
  /// @return sum over voxels of the sigmoid cross-entropy in nats, added in double in row-major order
  /// Throws Error(shape_mismatch) for unequal shapes, Error(numerical) if a logit is NaN, and Error(invalid_argument) for a
  /// label outside [0, 1].
  double add(View<const float, 3> logits, View<const float, 3> labels);

  /// Count one channel of a network that predicts probabilities (affinities). Probabilities are converted to logits and clipped
  /// to +-kLogitRange.
  ///
  /// @param probabilities [z, y, x, channels] in [0, 1] (Error(numerical) otherwise)
  /// @param targets       [z, y, x, channels] in [0, 1]
  /// @param weights       [z, y, x, channels]; voxels of weight 0 are excluded, and all others count equally
  /// @return as add(), over the voxels counted
  /// Throws as add(), and Error(out_of_range) for a channel that does not exist.
  double add_probabilities(View<const float, 4> probabilities, View<const float, 4> targets, View<const float, 4> weights,
                           std::int64_t channel);

  /// Return all counts as one vector, for a sum over ranks. Pass the sum to assign().
  [[nodiscard]] std::span<const std::int64_t> values() const noexcept { return values_; }
  /// Replaces all counts. Throws Error(shape_mismatch) if the number of values is not values().size().
  void assign(std::span<const std::int64_t> values);
  /// Adds the counts of `other`.
  void merge(const VoxelCounts& other);

  [[nodiscard]] std::int64_t voxels() const noexcept;
  [[nodiscard]] std::int64_t object_voxels() const noexcept;
  /// Return the outcomes at kThresholds[index]. Throws Error(out_of_range) for another index.
  [[nodiscard]] BinaryCounts counts(std::size_t index) const;
  /// Return the average precision, the sum of (recall_k - recall_{k-1}) precision_k. 0 without object voxels.
  ///
  /// Thresholds are the lower borders of the histogram bins, from the highest to the lowest.
  [[nodiscard]] double average_precision() const;
  /// Return the average precision for background, predicted with 1 - probability. It is more informative than
  /// average_precision() if few voxels are background.
  [[nodiscard]] double background_average_precision() const;

  /// Return the mean soft label, which is the best constant prediction. Each label is rounded to a multiple of 2^-30.
  [[nodiscard]] double mean_label() const;
  /// Return the mean cross-entropy of the best constant prediction, in nats.
  [[nodiscard]] double best_constant_cross_entropy() const;
  /// Return the outcomes if every voxel is predicted as object.
  [[nodiscard]] BinaryCounts everything_is_object() const;
  /// Return the outcomes of the best constant prediction at kThresholds[index]. Throws Error(out_of_range) for another index.
  [[nodiscard]] BinaryCounts best_constant(std::size_t index) const;

 private:
  [[nodiscard]] double area_of(bool object) const;

  std::vector<std::int64_t> values_;
};

}  // namespace floodtide::evaluate
