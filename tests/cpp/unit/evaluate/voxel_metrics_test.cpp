// SPDX-License-Identifier: Apache-2.0
#include "floodtide/evaluate/voxel_metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::evaluate {
namespace {

View<const float, 3> row(const std::vector<float>& values) {
  return {values.data(), {1, 1, static_cast<std::int64_t>(values.size())}};
}

TEST(VoxelCounts, CountsOutcomesAtBothThresholds) {
  const std::vector<float> logits{3.0F, 1.0F, 0.0F, -1.0F, 2.5F, -3.0F};
  const std::vector<float> labels{0.95F, 0.95F, 0.95F, 0.95F, 0.05F, 0.05F};
  VoxelCounts counts;
  static_cast<void>(counts.add(row(logits), row(labels)));
  const BinaryCounts half = counts.counts(0);
  EXPECT_EQ(half.true_positive, 3);
  EXPECT_EQ(half.false_negative, 1);
  EXPECT_EQ(half.false_positive, 1);
  EXPECT_EQ(half.true_negative, 1);
  const BinaryCounts sure = counts.counts(1);
  EXPECT_EQ(sure.true_positive, 1);
  EXPECT_EQ(sure.false_positive, 1);
  EXPECT_DOUBLE_EQ(half.scores().f1, 6.0 / 8.0);
  EXPECT_DOUBLE_EQ(half.scores().mcc, (3.0 * 1.0 - 1.0 * 1.0) / std::sqrt(4.0 * 4.0 * 2.0 * 2.0));
}

TEST(VoxelCounts, ReturnsTheSumOfCrossEntropy) {
  VoxelCounts counts;
  const double sum = counts.add(row({0.0F, 50.0F}), row({0.95F, 1.0F}));
  EXPECT_DOUBLE_EQ(sum, std::log(2.0) + std::log1p(std::exp(-50.0)));
}

TEST(VoxelCounts, AveragePrecisionOfASeparationIsOne) {
  VoxelCounts counts;
  static_cast<void>(counts.add(row({4.0F, 3.0F, -100.0F, -5.0F}), row({1.0F, 1.0F, 0.0F, 0.0F})));
  EXPECT_DOUBLE_EQ(counts.average_precision(), 1.0);
  VoxelCounts reversed;
  static_cast<void>(reversed.add(row({4.0F, 3.0F, 100.0F, -5.0F}), row({0.0F, 0.0F, 0.0F, 1.0F})));
  EXPECT_DOUBLE_EQ(reversed.average_precision(), 0.25);
}

TEST(VoxelCounts, TrivialPredictors) {
  VoxelCounts counts;
  static_cast<void>(counts.add(row({0.0F, 0.0F, 0.0F, 0.0F}), row({0.95F, 0.05F, 0.05F, 0.05F})));
  EXPECT_NEAR(counts.mean_label(), 0.275, 1.0 / (1 << 24));  // labels are floats, with 24 bits
  EXPECT_DOUBLE_EQ(counts.everything_is_object().scores().f1, 2.0 / 5.0);
  EXPECT_EQ(counts.best_constant(0).scores().f1, 0.0);
  EXPECT_DOUBLE_EQ(counts.best_constant(0).scores().accuracy, 0.75);
  const double p = counts.mean_label();
  EXPECT_DOUBLE_EQ(counts.best_constant_cross_entropy(), -(p * std::log(p) + (1.0 - p) * std::log1p(-p)));
}

TEST(VoxelCounts, EmptyCountsScoreZero) {
  const VoxelCounts counts;
  EXPECT_EQ(counts.counts(0).scores().f1, 0.0);
  EXPECT_EQ(counts.counts(0).scores().mcc, 0.0);
  EXPECT_EQ(counts.average_precision(), 0.0);
  EXPECT_EQ(counts.best_constant_cross_entropy(), 0.0);
}

TEST(VoxelCounts, PartsAddUpExactly) {
  VoxelCounts whole;
  VoxelCounts a;
  VoxelCounts b;
  static_cast<void>(whole.add(row({1.0F, -2.0F, 30.0F, -30.0F}), row({0.95F, 0.05F, 0.95F, 0.05F})));
  static_cast<void>(a.add(row({1.0F}), row({0.95F})));
  static_cast<void>(b.add(row({-2.0F, 30.0F, -30.0F}), row({0.05F, 0.95F, 0.05F})));
  b.merge(a);
  EXPECT_TRUE(std::equal(whole.values().begin(), whole.values().end(), b.values().begin()));
  VoxelCounts copy;
  copy.assign(whole.values());
  EXPECT_EQ(copy.voxels(), 4);
  EXPECT_EQ(copy.object_voxels(), 2);
}

TEST(VoxelCounts, CountsTheWeightedVoxelsOfOneChannel) {
  const std::vector<float> probabilities{0.9F, 0.2F, 0.1F, 0.7F, 0.5F, 0.99F, 0.3F, 1.0F, 0.4F, 0.0F};
  const std::vector<float> targets{0, 1, 1, 0, 0, 1, 1, 1, 0, 0};
  const std::vector<float> weights{1, 1, 1, 0.25F, 1, 0, 1, 3, 1, 2};
  const Shape<4> shape{1, 1, 5, 2};
  VoxelCounts counts;
  const double sum =
      counts.add_probabilities({probabilities.data(), shape}, {targets.data(), shape}, {weights.data(), shape}, 1);
  VoxelCounts expected;
  const auto logit = [](double p) { return static_cast<float>(std::log(p / (1 - p))); };
  const float end = VoxelCounts::kLogitRange;
  const double expected_sum = expected.add(row({logit(0.2F), logit(0.7F), end, -end}), row({1.0F, 0.0F, 1.0F, 0.0F}));
  EXPECT_TRUE(std::equal(counts.values().begin(), counts.values().end(), expected.values().begin()));
  EXPECT_NEAR(sum, expected_sum, 1e-6);  // logits are floats up to 16
  EXPECT_EQ(counts.voxels(), 4);
  EXPECT_EQ(counts.object_voxels(), 2);
}

TEST(VoxelCounts, RefusesProbabilitiesThatAreNone) {
  const Shape<4> shape{1, 1, 1, 2};
  const std::vector<float> zeros{0, 0};
  const std::vector<float> ones{1, 1};
  const auto refused = [&](const std::vector<float>& probabilities, std::int64_t channel) {
    VoxelCounts counts;
    EXPECT_THROW(static_cast<void>(counts.add_probabilities({probabilities.data(), shape}, {zeros.data(), shape},
                                                            {ones.data(), shape}, channel)),
                 Error);
  };
  refused({0.0F, 1.5F}, 1);
  refused({std::numeric_limits<float>::quiet_NaN(), 0.5F}, 0);
  refused({0.5F, 0.5F}, 2);
}

TEST(VoxelCounts, RefusesWhatIsNoProbabilityOrNumber) {
  VoxelCounts counts;
  EXPECT_THROW(static_cast<void>(counts.add(row({std::numeric_limits<float>::quiet_NaN()}), row({0.0F}))), Error);
  EXPECT_THROW(static_cast<void>(counts.add(row({0.0F}), row({1.5F}))), Error);
  EXPECT_THROW(static_cast<void>(counts.add(row({0.0F, 1.0F}), row({1.0F}))), Error);
  EXPECT_THROW(counts.assign(std::vector<std::int64_t>(3)), Error);
}

}  // namespace
}  // namespace floodtide::evaluate
