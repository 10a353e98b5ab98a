// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::evaluate {

/// The class of the largest score of each pixel, the first of equal ones.
///
/// @param scores      [z, y, x, classes] probabilities or logits; 1 to 255 classes
/// @param out_classes [z, y, x]
/// Throws Error(shape_mismatch), Error(numerical) for a score that is not a number.
void most_likely_classes(View<const float, 4> scores, View<std::uint8_t, 3> out_classes);

/// Dice scores of each group (patient) and class, and pooled over all pixels: 2 |P and T| / (|P| + |T|) for the pixels P that
/// are predicted to be of the class and T that are. All state is integer: sums over images, ranks and any split of the work
/// are exact, so a score has one value.
class DiceCounts {
 public:
  /// Throws Error(invalid_argument) if a number is below 1 or classes above 255.
  DiceCounts(std::int64_t groups, std::int64_t classes);

  /// Counts one image of a group. Both are [z, y, x]. Throws Error(shape_mismatch), Error(out_of_range) for another group,
  /// Error(invalid_argument) for a class that is not below classes().
  void add(std::int64_t group, View<const std::uint8_t, 3> predicted, View<const std::uint8_t, 3> truth);

  /// Everything counted, as one vector for a sum over ranks; assign() takes the sum back.
  [[nodiscard]] std::span<const std::int64_t> values() const noexcept { return values_; }
  /// Replaces all counts. Throws Error(shape_mismatch) if the number of values is not values().size().
  void assign(std::span<const std::int64_t> values);

  [[nodiscard]] std::int64_t groups() const noexcept { return groups_; }
  [[nodiscard]] std::int64_t classes() const noexcept { return classes_; }
  /// The score of one group; none where the class is neither predicted nor true.
  [[nodiscard]] std::optional<double> group(std::int64_t group, std::int64_t of_class) const;
  /// The score over the pixels of all groups together; none where the class is neither predicted nor true.
  [[nodiscard]] std::optional<double> pooled(std::int64_t of_class) const;
  /// The mean over the groups that have a score; none if no group has.
  [[nodiscard]] std::optional<double> mean_over_groups(std::int64_t of_class) const;

 private:
  /// Pixels that are both, predicted and true. Throws Error(out_of_range).
  [[nodiscard]] std::span<const std::int64_t> counts(std::int64_t group, std::int64_t of_class) const;

  std::int64_t groups_;
  std::int64_t classes_;
  std::vector<std::int64_t> values_;  // [groups, classes, (both, predicted, true)]
};

}  // namespace floodtide::evaluate
