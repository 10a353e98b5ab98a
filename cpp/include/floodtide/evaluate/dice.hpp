// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::evaluate {

/// Find the class with the largest score of each pixel. If several scores are equal, the first class is used.
///
/// @param scores      [z, y, x, classes] probabilities or logits; 1 to 255 classes
/// @param out_classes [z, y, x]
/// Throws Error(shape_mismatch) for other shapes, and Error(numerical) if a score is NaN.
void most_likely_classes(View<const float, 4> scores, View<std::uint8_t, 3> out_classes);

/// Dice scores by class, for each group (patient) and for all pixels together, and the confusion of classes.
///
/// The Dice score is 2 |P and T| / (|P| + |T|). P are the pixels that are predicted as the class, T the pixels that truly have
/// it. All counts are integers. Sums over images and ranks are therefore exact for any split of the work.
class DiceCounts {
 public:
  /// Throws Error(invalid_argument) if a number is below 1, or if `classes` is above 255.
  DiceCounts(std::int64_t groups, std::int64_t classes);

  /// Count one image of a group. `predicted` and `truth` are [z, y, x]. Pixels with the true class 255 do not count.
  /// Throws Error(shape_mismatch) for unequal shapes, Error(out_of_range) for a group that does not exist, and
  /// Error(invalid_argument) for a class of at least classes().
  void add(std::int64_t group, View<const std::uint8_t, 3> predicted, View<const std::uint8_t, 3> truth);

  /// Return the number of pixels of all groups with this true and this predicted class.
  /// Throws Error(out_of_range) for a class that does not exist.
  [[nodiscard]] std::int64_t confusion(std::int64_t truth, std::int64_t predicted) const;
  /// Return the pooled score of a class if it were predicted everywhere, or 0 without pixels.
  /// Throws Error(out_of_range) for a class that does not exist.
  [[nodiscard]] double everywhere(std::int64_t of_class) const;

  /// Return all counts as one vector, for a sum over ranks. Pass the sum to assign().
  [[nodiscard]] std::span<const std::int64_t> values() const noexcept { return values_; }
  /// Replaces all counts. Throws Error(shape_mismatch) if the number of values is not values().size().
  void assign(std::span<const std::int64_t> values);

  [[nodiscard]] std::int64_t groups() const noexcept { return groups_; }
  [[nodiscard]] std::int64_t classes() const noexcept { return classes_; }
  /// Return the score of one group, or no value if no pixel has the class in prediction or truth.
  /// Throws Error(out_of_range) for a group or class that does not exist.
  [[nodiscard]] std::optional<double> group(std::int64_t group, std::int64_t of_class) const;
  /// Return the score of the pixels of all groups together, or no value if no pixel has the class in prediction or truth.
  /// Throws Error(out_of_range) for a class that does not exist.
  [[nodiscard]] std::optional<double> pooled(std::int64_t of_class) const;
  /// Return the mean over the groups that have a score, or no value if no group has a score.
  /// Throws Error(out_of_range) for a class that does not exist.
  [[nodiscard]] std::optional<double> mean_over_groups(std::int64_t of_class) const;

 private:
  /// Return three numbers of pixels: predicted and true, predicted, true. Throws Error(out_of_range).
  [[nodiscard]] std::span<const std::int64_t> counts(std::int64_t group, std::int64_t of_class) const;

  std::int64_t groups_;
  std::int64_t classes_;
  std::vector<std::int64_t> values_;  // [groups, classes, (both, predicted, true)], then [classes (true), classes (predicted)]
};

}  // namespace floodtide::evaluate
