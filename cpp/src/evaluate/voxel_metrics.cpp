// SPDX-License-Identifier: Apache-2.0
// Layout of VoxelCounts::values_: element 0 is the sum of labels in units of 2^-30. Two blocks follow, for background and for
// object voxels. Each block has the number of voxels at or above each threshold, then the histogram of logits, whose sum is the
// number of voxels.
#include "floodtide/evaluate/voxel_metrics.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/base/error.hpp"

namespace floodtide::evaluate {
namespace {

constexpr double kLabelUnits = 1073741824.0;  // 2^30, so that the sum of 2^33 labels fits into 64 bits
constexpr std::size_t kThresholdCount = VoxelCounts::kThresholds.size();
constexpr std::size_t kBlock = kThresholdCount + static_cast<std::size_t>(VoxelCounts::kBins);
constexpr std::size_t kValues = 1 + 2 * kBlock;

double quotient(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

/// Return the begin of the block of background (false) or object (true) voxels.
std::size_t block_of(bool object) { return object ? 1 + kBlock : 1; }

std::size_t bin_of(float logit) {
  constexpr float kBinsPerUnit = static_cast<float>(VoxelCounts::kBins) / (2.0F * VoxelCounts::kLogitRange);
  const float position = (logit + VoxelCounts::kLogitRange) * kBinsPerUnit;
  return static_cast<std::size_t>(std::clamp(position, 0.0F, static_cast<float>(VoxelCounts::kBins - 1)));
}

std::int64_t class_voxels(std::span<const std::int64_t> values, bool object) {
  std::int64_t sum = 0;
  const std::size_t histogram = block_of(object) + kThresholdCount;
  for (std::size_t bin = 0; bin < static_cast<std::size_t>(VoxelCounts::kBins); ++bin) sum += values[histogram + bin];
  return sum;
}

using Limits = std::array<float, kThresholdCount>;

/// Return kThresholds as logits.
Limits logit_limits() {
  Limits limits{};
  for (std::size_t i = 0; i < kThresholdCount; ++i) {
    const double p = VoxelCounts::kThresholds[i];
    limits[i] = static_cast<float>(std::log(p / (1.0 - p)));
  }
  return limits;
}

/// Counts the voxel with index `position`, and returns its cross-entropy.
double count_voxel(float logit, float label, std::size_t position, const Limits& limits, std::span<std::int64_t> values) {
  FLOODTIDE_REQUIRE(!std::isnan(logit), numerical, "voxel metrics: logit ", position, " is not a number");
  FLOODTIDE_REQUIRE(label >= 0.0F && label <= 1.0F, invalid_argument, "voxel metrics: label ", position, " is ", label,
                    ", expected a probability in [0, 1]");
  values[0] += std::llround(static_cast<double>(label) * kLabelUnits);
  const std::size_t block = block_of(label > 0.5F);
  for (std::size_t k = 0; k < kThresholdCount; ++k) values[block + k] += logit >= limits[k] ? 1 : 0;
  ++values[block + kThresholdCount + bin_of(logit)];
  const auto x = static_cast<double>(logit);
  return std::max(x, 0.0) - x * static_cast<double>(label) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

BinaryScores BinaryCounts::scores() const {
  const auto tp = static_cast<double>(true_positive);
  const auto fp = static_cast<double>(false_positive);
  const auto tn = static_cast<double>(true_negative);
  const auto fn = static_cast<double>(false_negative);
  const double spread = std::sqrt(tp + fp) * std::sqrt(tp + fn) * std::sqrt(tn + fp) * std::sqrt(tn + fn);
  return {quotient(tp + tn, tp + fp + tn + fn), quotient(tp, tp + fp), quotient(tp, tp + fn),
          quotient(2.0 * tp, 2.0 * tp + fp + fn), quotient(tp * tn - fp * fn, spread)};
}

VoxelCounts::VoxelCounts() : values_(kValues, 0) {}

double VoxelCounts::add(View<const float, 3> logits, View<const float, 3> labels) {
  FLOODTIDE_REQUIRE(logits.shape() == labels.shape(), shape_mismatch, "voxel metrics: logits have shape ", Show{logits.shape()},
                    ", labels have shape ", Show{labels.shape()});
  const Limits limits = logit_limits();
  double cross_entropy = 0.0;
  const std::span<const float> x = logits.span();
  const std::span<const float> y = labels.span();
  for (std::size_t i = 0; i < x.size(); ++i) cross_entropy += count_voxel(x[i], y[i], i, limits, values_);
  return cross_entropy;
}

double VoxelCounts::add_probabilities(View<const float, 4> probabilities, View<const float, 4> targets,
                                      View<const float, 4> weights, std::int64_t channel) {
  const bool alike = probabilities.shape() == targets.shape() && targets.shape() == weights.shape();
  FLOODTIDE_REQUIRE(alike, shape_mismatch, "voxel metrics: probabilities have shape ", Show{probabilities.shape()},
                    ", targets ", Show{targets.shape()}, ", weights ", Show{weights.shape()});
  const std::int64_t channels = targets.shape(3);
  FLOODTIDE_REQUIRE(channel >= 0 && channel < channels, out_of_range, "voxel metrics: channel ", channel, " of ", channels);
  const Limits limits = logit_limits();
  double cross_entropy = 0.0;
  for (std::int64_t i = channel; i < targets.size(); i += channels) {
    if (weights.data()[i] == 0.0F) continue;
    const float p = probabilities.data()[i];
    FLOODTIDE_REQUIRE(p >= 0.0F && p <= 1.0F, numerical, "voxel metrics: prediction ", i, " is ", p,
                      ", expected a probability in [0, 1]");
    const double logit = std::log(static_cast<double>(p)) - std::log1p(-static_cast<double>(p));
    const auto range = static_cast<double>(kLogitRange);
    cross_entropy += count_voxel(static_cast<float>(std::clamp(logit, -range, range)), targets.data()[i],
                                 static_cast<std::size_t>(i), limits, values_);
  }
  return cross_entropy;
}

void VoxelCounts::assign(std::span<const std::int64_t> values) {
  FLOODTIDE_REQUIRE(values.size() == values_.size(), shape_mismatch, "voxel metrics: got ", values.size(), " counts, expected ",
                    values_.size());
  std::copy(values.begin(), values.end(), values_.begin());
}

void VoxelCounts::merge(const VoxelCounts& other) {
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += other.values_[i];
}

std::int64_t VoxelCounts::voxels() const noexcept { return class_voxels(values_, false) + class_voxels(values_, true); }

std::int64_t VoxelCounts::object_voxels() const noexcept { return class_voxels(values_, true); }

BinaryCounts VoxelCounts::counts(std::size_t index) const {
  FLOODTIDE_REQUIRE(index < kThresholdCount, out_of_range, "voxel metrics: threshold ", index, " of ", kThresholdCount);
  const std::int64_t true_positive = values_[block_of(true) + index];
  const std::int64_t false_positive = values_[block_of(false) + index];
  return {true_positive, false_positive, class_voxels(values_, false) - false_positive,
          class_voxels(values_, true) - true_positive};
}

double VoxelCounts::average_precision() const { return area_of(true); }

double VoxelCounts::background_average_precision() const { return area_of(false); }

double VoxelCounts::area_of(bool object) const {
  const std::size_t wanted_bins = block_of(object) + kThresholdCount;
  const std::size_t other_bins = block_of(!object) + kThresholdCount;
  const auto wanted = static_cast<double>(object ? object_voxels() : voxels() - object_voxels());
  std::int64_t true_positive = 0;
  std::int64_t false_positive = 0;
  double area = 0.0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kBins); ++i) {
    const std::size_t bin = object ? static_cast<std::size_t>(kBins) - 1 - i : i;  // highest probability of the class first
    const std::int64_t found = values_[wanted_bins + bin];
    true_positive += found;
    false_positive += values_[other_bins + bin];
    if (found > 0) {
      const auto called = static_cast<double>(true_positive + false_positive);
      area += static_cast<double>(found) / wanted * (static_cast<double>(true_positive) / called);
    }
  }
  return area;
}

double VoxelCounts::mean_label() const {
  return quotient(static_cast<double>(values_[0]) / kLabelUnits, static_cast<double>(voxels()));
}

double VoxelCounts::best_constant_cross_entropy() const {
  const double p = mean_label();
  if (p <= 0.0 || p >= 1.0) return 0.0;
  return -(p * std::log(p) + (1.0 - p) * std::log1p(-p));
}

BinaryCounts VoxelCounts::everything_is_object() const { return {object_voxels(), voxels() - object_voxels(), 0, 0}; }

BinaryCounts VoxelCounts::best_constant(std::size_t index) const {
  FLOODTIDE_REQUIRE(index < kThresholdCount, out_of_range, "voxel metrics: threshold ", index, " of ", kThresholdCount);
  if (mean_label() >= kThresholds[index]) return everything_is_object();
  return {0, 0, voxels() - object_voxels(), object_voxels()};
}

}  // namespace floodtide::evaluate
