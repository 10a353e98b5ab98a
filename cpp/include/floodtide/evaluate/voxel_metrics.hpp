// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::evaluate {

/// Quality of a yes/no decision per voxel; 0/0 counts as 0.
struct BinaryScores {
  double accuracy;   ///< (TP + TN) / all
  double precision;  ///< TP / (TP + FP)
  double recall;     ///< TP / (TP + FN)
  double f1;         ///< 2 TP / (2 TP + FP + FN)
  double mcc;        ///< Matthews correlation coefficient
};

/// Outcomes of a yes/no decision over voxels.
struct BinaryCounts {
  std::int64_t true_positive = 0;
  std::int64_t false_positive = 0;
  std::int64_t true_negative = 0;
  std::int64_t false_negative = 0;

  [[nodiscard]] BinaryScores scores() const;
};

/// Counts of predicted object-mask logits against soft labels. All state is integer, so sums over fields of view, walkers
/// and ranks are exact in any order. The one real-valued figure, cross-entropy, is returned by add() for each field of view:
/// the caller keeps those numbers and adds them in the order of the fields of view, whatever rank computed them.
class VoxelCounts {
 public:
  /// Probabilities at which voxels are called object (logit >= logit(p)).
  static constexpr std::array<double, 2> kThresholds{0.5, 0.9};
  /// Histogram of logits: equal bins over [-kLogitRange, kLogitRange), values outside go into the end bins.
  static constexpr std::int64_t kBins = 4096;
  static constexpr float kLogitRange = 16.0F;

  VoxelCounts();

  /// Counts one field of view. A label above 0.5 means object.
  ///
  /// @param logits [z, y, x] updated logits
  /// @param labels [z, y, x] probabilities in [0, 1]
  /// @return sum over voxels of the sigmoid cross-entropy in nats, added in double in row-major order.
  /// Throws Error(shape_mismatch), Error(numerical) for a logit that is not a number, Error(invalid_argument) for a label
  /// outside [0, 1].
  double add(View<const float, 3> logits, View<const float, 3> labels);

  /// Counts one channel of a network that predicts probabilities (affinities), as their logits within +-kLogitRange.
  ///
  /// @param probabilities [z, y, x, channels] in [0, 1]
  /// @param targets       [z, y, x, channels] in [0, 1]
  /// @param weights       [z, y, x, channels] voxels of weight 0 are left out, all others count alike
  /// @return as above, over the voxels counted. Throws as above, and Error(out_of_range) for another channel.
  double add_probabilities(View<const float, 4> probabilities, View<const float, 4> targets, View<const float, 4> weights,
                           std::int64_t channel);

  /// Everything counted, as one vector for a sum over ranks; assign() takes the sum back.
  [[nodiscard]] std::span<const std::int64_t> values() const noexcept { return values_; }
  /// Replaces all counts. Throws Error(shape_mismatch) if the number of values is not values().size().
  void assign(std::span<const std::int64_t> values);
  void merge(const VoxelCounts& other);

  [[nodiscard]] std::int64_t voxels() const noexcept;
  [[nodiscard]] std::int64_t object_voxels() const noexcept;
  /// Outcomes at kThresholds[index].
  [[nodiscard]] BinaryCounts counts(std::size_t index) const;
  /// Area under the precision-recall steps, thresholds at the bins' lower borders, highest first:
  /// sum of (recall_k - recall_{k-1}) precision_k. 0 without object voxels.
  [[nodiscard]] double average_precision() const;
  /// The same of 1 - probability against background: where little is background it says more.
  [[nodiscard]] double background_average_precision() const;

  /// Mean soft label (in units of 2^-30), the best constant prediction.
  [[nodiscard]] double mean_label() const;
  /// Mean cross-entropy of the best constant prediction, in nats.
  [[nodiscard]] double best_constant_cross_entropy() const;
  /// Outcomes of the predictor that calls every voxel object.
  [[nodiscard]] BinaryCounts everything_is_object() const;
  /// Outcomes of the best constant prediction at kThresholds[index].
  [[nodiscard]] BinaryCounts best_constant(std::size_t index) const;

 private:
  [[nodiscard]] double area_of(bool object) const;

  std::vector<std::int64_t> values_;
};

}  // namespace floodtide::evaluate
