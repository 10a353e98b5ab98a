// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/noise_scale.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "floodtide/base/random.hpp"

namespace floodtide::optim {
namespace {

constexpr std::size_t kParameters = 400;
constexpr int kBatches = 8;

/// Norms of a step of `kBatches` workers with one example each: gradients of a quadratic with Gaussian noise.
GradientNorms step_of(Philox& random, double signal, double noise) {
  std::vector<double> mean(kParameters, 0.0);
  double small_square = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    for (double& sum : mean) {
      const double gradient = signal + noise * random.normal();
      small_square += gradient * gradient / kBatches;
      sum += gradient / kBatches;
    }
  }
  double large_square = 0;
  for (const double value : mean) large_square += value * value;
  return {small_square, 1, large_square, 1.0 / kBatches};
}

TEST(NoiseScale, IsWithinTenPercentOfAKnownAnswer) {
  for (const double noise : {0.5, 2.0, 5.0}) {
    NoiseScale measured;
    Philox random(5, static_cast<std::uint64_t>(noise * 10));
    for (int step = 0; step < 400; ++step) measured.add(step_of(random, 1, noise));
    const double expected = noise * noise;  // trace of the covariance over the squared norm of the gradient
    const auto estimate = measured.estimate();
    ASSERT_TRUE(estimate);
    EXPECT_NEAR(estimate->examples, expected, 0.1 * expected) << noise;
    EXPECT_LT(estimate->low, estimate->examples);
    EXPECT_GT(estimate->high, estimate->examples);
  }
}

TEST(NoiseScale, FollowsGradientsThatBecomeSmaller) {
  NoiseScale measured;
  Philox random(3, 3);
  for (int step = 0; step < 200; ++step) measured.add(step_of(random, 30, 30));
  for (int step = 0; step < 400; ++step) measured.add(step_of(random, 0.1, 0.3));
  const auto estimate = measured.estimate();
  ASSERT_TRUE(estimate);
  EXPECT_NEAR(estimate->examples, 9, 1);
}

/// About 95 of 100 intervals hold the answer; with 60 runs, fewer than 50 would be a wrong interval.
TEST(NoiseScale, IntervalHoldsTheAnswerAsOftenAsItSays) {
  int held = 0;
  for (std::uint64_t run = 0; run < 60; ++run) {
    NoiseScale measured;
    Philox random(run, 1);
    for (int step = 0; step < 150; ++step) measured.add(step_of(random, 1, 3));
    const auto estimate = measured.estimate();
    held += estimate && estimate->low <= 9 && estimate->high >= 9 ? 1 : 0;
  }
  EXPECT_GE(held, 50);
}

TEST(NoiseScale, IsUnknownAtFirstAndUnboundedWithoutASignal) {
  NoiseScale measured;
  EXPECT_FALSE(measured.estimate());
  Philox random(1, 1);
  for (int step = 0; step < 19; ++step) measured.add(step_of(random, 1, 1));
  EXPECT_FALSE(measured.estimate());
  measured.add(step_of(random, 1, 1));
  EXPECT_TRUE(measured.estimate());
  NoiseScale noise_only;
  for (int step = 0; step < 100; ++step) noise_only.add(step_of(random, 0, 1));
  const auto estimate = noise_only.estimate();
  EXPECT_TRUE(!estimate || estimate->high == std::numeric_limits<double>::infinity());
}

TEST(NoiseScale, LeavesOutStepsThatSayNothing) {
  NoiseScale measured;
  const auto before = std::vector(measured.state().begin(), measured.state().end());
  measured.add({1, 0.25, 1, 0.25});  // one batch size
  measured.add({std::numeric_limits<double>::infinity(), 1, 1, 0.25});
  EXPECT_EQ(std::vector(measured.state().begin(), measured.state().end()), before);
}

TEST(NoiseScale, ContinuesFromACopiedState) {
  NoiseScale first, second;
  Philox random(2, 2);
  for (int step = 0; step < 30; ++step) first.add(step_of(random, 1, 1));
  std::ranges::copy(first.state(), second.state().begin());
  const GradientNorms next = step_of(random, 1, 1);
  first.add(next);
  second.add(next);
  EXPECT_EQ(first.estimate()->examples, second.estimate()->examples);
  EXPECT_EQ(first.estimate()->high, second.estimate()->high);
}

}  // namespace
}  // namespace floodtide::optim
