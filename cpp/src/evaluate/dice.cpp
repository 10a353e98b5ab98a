// SPDX-License-Identifier: Apache-2.0
#include "floodtide/evaluate/dice.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/base/error.hpp"

namespace floodtide::evaluate {
namespace {

constexpr std::int64_t kMaxClasses = 255;
constexpr std::int64_t kNotCounted = 255;

std::optional<double> score(std::int64_t both, std::int64_t predicted, std::int64_t actual) {
  if (predicted + actual == 0) return std::nullopt;
  return 2.0 * static_cast<double>(both) / static_cast<double>(predicted + actual);
}

}  // namespace

void most_likely_classes(View<const float, 4> scores, View<std::uint8_t, 3> out_classes) {
  const Vec3 shape{scores.shape(0), scores.shape(1), scores.shape(2)};
  const std::int64_t classes = scores.shape(3);
  FLOODTIDE_REQUIRE(out_classes.shape() == shape && classes >= 1 && classes <= kMaxClasses, shape_mismatch,
                    "classes: scores have shape ", Show{scores.shape()}, ", the result ", Show{out_classes.shape()},
                    "; expected one to 255 scores for each of its pixels");
  for (std::int64_t pixel = 0; pixel < out_classes.size(); ++pixel) {
    const float* row = scores.data() + pixel * classes;
    std::int64_t best = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      FLOODTIDE_REQUIRE(!std::isnan(row[c]), numerical, "classes: score ", c, " of pixel ", pixel, " is not a number");
      if (row[c] > row[best]) best = c;
    }
    out_classes.data()[pixel] = static_cast<std::uint8_t>(best);
  }
}

DiceCounts::DiceCounts(std::int64_t groups, std::int64_t classes) : groups_(groups), classes_(classes) {
  FLOODTIDE_REQUIRE(groups >= 1 && classes >= 1 && classes <= kMaxClasses, invalid_argument, "dice: ", groups, " groups and ",
                    classes, " classes given, expected at least one of each and at most ", kMaxClasses, " classes");
  values_.resize(static_cast<std::size_t>(checked_volume(Vec3{3, groups, classes}) + classes * classes));
}

void DiceCounts::add(std::int64_t group, View<const std::uint8_t, 3> predicted, View<const std::uint8_t, 3> truth) {
  FLOODTIDE_REQUIRE(predicted.shape() == truth.shape(), shape_mismatch, "dice: predicted classes have shape ",
                    Show{predicted.shape()}, ", the true ones ", Show{truth.shape()});
  FLOODTIDE_REQUIRE(group >= 0 && group < groups_, out_of_range, "dice: group ", group, " of ", groups_);
  std::int64_t* counts = values_.data() + 3 * group * classes_;
  std::int64_t* confusion = values_.data() + 3 * groups_ * classes_;
  for (std::int64_t i = 0; i < truth.size(); ++i) {
    const std::int64_t p = predicted.data()[i];
    const std::int64_t t = truth.data()[i];
    if (t == kNotCounted) continue;
    FLOODTIDE_REQUIRE(p < classes_ && t < classes_, invalid_argument, "dice: pixel ", i, " has predicted class ", p,
                      " and true class ", t, ", expected 0 to ", classes_ - 1);
    if (p == t) ++counts[3 * p];
    ++counts[3 * p + 1];
    ++counts[3 * t + 2];
    ++confusion[t * classes_ + p];
  }
}

void DiceCounts::assign(std::span<const std::int64_t> values) {
  FLOODTIDE_REQUIRE(values.size() == values_.size(), shape_mismatch, "dice: got ", values.size(), " counts, expected ",
                    values_.size());
  std::copy(values.begin(), values.end(), values_.begin());
}

std::span<const std::int64_t> DiceCounts::counts(std::int64_t group, std::int64_t of_class) const {
  FLOODTIDE_REQUIRE(group >= 0 && group < groups_ && of_class >= 0 && of_class < classes_, out_of_range, "dice: group ", group,
                    " of ", groups_, ", class ", of_class, " of ", classes_);
  return values().subspan(static_cast<std::size_t>(3 * (group * classes_ + of_class)), 3);
}

std::int64_t DiceCounts::confusion(std::int64_t truth, std::int64_t predicted) const {
  FLOODTIDE_REQUIRE(truth >= 0 && truth < classes_ && predicted >= 0 && predicted < classes_, out_of_range, "dice: true class ",
                    truth, " and predicted class ", predicted, " of ", classes_);
  return values_[static_cast<std::size_t>((3 * groups_ + truth) * classes_ + predicted)];
}

double DiceCounts::everywhere(std::int64_t of_class) const {
  std::int64_t own = 0, all = 0;
  for (std::int64_t truth = 0; truth < classes_; ++truth) {
    for (std::int64_t predicted = 0; predicted < classes_; ++predicted) {
      all += confusion(truth, predicted);
      if (truth == of_class) own += confusion(of_class, predicted);
    }
  }
  return score(own, all, own).value_or(0);
}

std::optional<double> DiceCounts::group(std::int64_t group, std::int64_t of_class) const {
  const auto pixels = counts(group, of_class);
  return score(pixels[0], pixels[1], pixels[2]);
}

std::optional<double> DiceCounts::pooled(std::int64_t of_class) const {
  std::int64_t both = 0;
  std::int64_t predicted = 0;
  std::int64_t actual = 0;
  for (std::int64_t g = 0; g < groups_; ++g) {
    const auto pixels = counts(g, of_class);
    both += pixels[0];
    predicted += pixels[1];
    actual += pixels[2];
  }
  return score(both, predicted, actual);
}

std::optional<double> DiceCounts::mean_over_groups(std::int64_t of_class) const {
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t g = 0; g < groups_; ++g) {
    if (const std::optional<double> dice = group(g, of_class)) {
      sum += *dice;
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace floodtide::evaluate
