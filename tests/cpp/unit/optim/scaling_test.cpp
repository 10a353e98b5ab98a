// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/scaling.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "floodtide/base/error.hpp"

namespace floodtide::optim {
namespace {

double factor(std::string_view rule, std::int64_t workers, const ParameterValues& values = {}) {
  return scale_factor(rule, values, {.count = workers});
}

TEST(ScaleFactor, FollowsTheRules) {
  EXPECT_EQ(factor("none", 16), 1);
  EXPECT_EQ(factor("linear", 16), 16);
  EXPECT_EQ(factor("sqrt", 16), 4);
  EXPECT_EQ(factor("lars", 16), 16);
  EXPECT_EQ(factor("lamb", 16), 4);
  EXPECT_EQ(factor("adam_sqrt", 16), 4);
  EXPECT_EQ(scale_factor("linear_batch", {}, {.count = 4, .batch = 3}), 12);
  EXPECT_EQ(scale_factor("sqrt_batch", {}, {.count = 3, .batch = 12}), 6);
  for (const ScaleRow& row : scale_rows()) EXPECT_EQ(factor(row.name, 1), 1) << row.name;
}

TEST(PaperRule, IsLinearAndThenTheSquareRootFromEitherAnchor) {
  EXPECT_EQ(factor("paper", 8), 8);
  EXPECT_EQ(factor("paper", 16), 16);
  EXPECT_EQ(factor("paper", 64), 32);
  EXPECT_EQ(factor("paper", 1024), 128);
  EXPECT_EQ(factor("paper", 16, {{"anchor", "base"}}), 16);
  EXPECT_EQ(factor("paper", 1024, {{"anchor", "base"}}), 32);
  EXPECT_EQ(factor("paper", 4, {{"linear_workers", 4.0}}), 4);
  EXPECT_EQ(factor("paper", 64, {{"linear_workers", 4.0}}), 16);
}

TEST(AutoRule, FollowsTheNoiseScale) {
  const auto with_noise = [](std::int64_t workers, double noise, double exponent) {
    return scale_factor("auto", {{"exponent", exponent}}, {.count = workers, .batch = 1, .noise_scale = noise});
  };
  EXPECT_EQ(factor("auto", 64), 1);               // not measured yet
  EXPECT_NEAR(with_noise(64, 1e9, 1), 64, 1e-4);  // much noise: linear
  EXPECT_NEAR(with_noise(64, 1e9, 0.5), 8, 1e-5);
  EXPECT_NEAR(with_noise(64, 0, 1), 1, 1e-15);  // no noise: more examples do not help
  EXPECT_NEAR(with_noise(4, 3, 1), 4 / 1.75, 1e-15);
  EXPECT_NEAR(scale_factor("auto", {}, {.count = 4, .batch = 2, .noise_scale = 6.0}), 4 / 1.75, 1e-15);
  EXPECT_NEAR(scale_factor("auto", {{"noise_scale", 3.0}}, {.count = 4, .noise_scale = 1e9}), 4 / 1.75, 1e-15);
}

TEST(Scaling, MeasuresNoiseOnlyWhereItMatters) {
  EXPECT_TRUE(Scaling("auto", {}, {.count = 2}).measures_noise());
  EXPECT_FALSE(Scaling("auto", {}, {.count = 1}).measures_noise());
  EXPECT_FALSE(Scaling("sqrt", {}, {.count = 2}).measures_noise());
  EXPECT_FALSE(Scaling("auto", {{"noise_scale", 22.0}}, {.count = 2}).measures_noise());
}

TEST(ScaledOptimizer, ScalesTheMomentsOfAdam) {
  const auto scaled = scaled_optimizer("adam_sqrt", "adam", {{"eps", 1e-4}}, {.count = 4});
  EXPECT_NEAR(std::get<double>(scaled.at("beta1")), 0.6, 1e-15);
  EXPECT_NEAR(std::get<double>(scaled.at("beta2")), 0.996, 1e-15);
  EXPECT_NEAR(std::get<double>(scaled.at("eps")), 5e-5, 1e-18);
  EXPECT_EQ(std::get<double>(scaled_optimizer("adam_sqrt", "adamw", {}, {.count = 64}).at("beta1")), 0);
  EXPECT_TRUE(scaled_optimizer("sqrt", "sgd", {}, {.count = 4}).empty());
}

TEST(ScaledOptimizer, RefusesOtherOptimizers) {
  EXPECT_THROW(static_cast<void>(scaled_optimizer("adam_sqrt", "sgd", {}, {.count = 4})), Error);
  EXPECT_THROW(static_cast<void>(scaled_optimizer("lars", "lamb", {}, {.count = 4})), Error);
}

TEST(ScaleFactor, RefusesUnknownRulesAndNoWorkers) {
  EXPECT_THROW(static_cast<void>(factor("cubic", 2)), Error);
  EXPECT_THROW(static_cast<void>(factor("sqrt", 0)), Error);
  EXPECT_THROW(static_cast<void>(scale_factor("sqrt", {}, {.count = 2, .batch = 0})), Error);
  EXPECT_THROW(static_cast<void>(factor("sqrt", 2, {{"linear_workers", 4.0}})), Error);
  EXPECT_THROW(static_cast<void>(factor("paper", 2, {{"linear_workers", 0.0}})), Error);
}

}  // namespace
}  // namespace floodtide::optim
