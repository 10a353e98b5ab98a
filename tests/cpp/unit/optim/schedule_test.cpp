// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/schedule.hpp"

#include <gtest/gtest.h>

#include "floodtide/base/error.hpp"

namespace floodtide::optim {
namespace {

TEST(ScaleFactor, FollowsTheRules) {
  EXPECT_EQ(scale_factor("none", {}, 16), 1);
  EXPECT_EQ(scale_factor("linear", {}, 16), 16);
  EXPECT_EQ(scale_factor("sqrt", {}, 16), 4);
  EXPECT_EQ(scale_factor("paper", {}, 8), 8);
  EXPECT_EQ(scale_factor("paper", {}, 16), 16);
  EXPECT_EQ(scale_factor("paper", {}, 64), 32);
  EXPECT_EQ(scale_factor("paper", {{"linear_workers", 4.0}}, 4), 4);
  EXPECT_EQ(scale_factor("paper", {{"linear_workers", 4.0}}, 64), 16);
  for (const ScaleRow& row : scale_rows()) EXPECT_EQ(scale_factor(row.name, {}, 1), 1) << row.name;
}

TEST(ScaleFactor, RefusesUnknownRulesAndNoWorkers) {
  EXPECT_THROW(static_cast<void>(scale_factor("cubic", {}, 2)), Error);
  EXPECT_THROW(static_cast<void>(scale_factor("sqrt", {}, 0)), Error);
  EXPECT_THROW(static_cast<void>(scale_factor("sqrt", {{"linear_workers", 4.0}}, 2)), Error);
  EXPECT_THROW(static_cast<void>(scale_factor("paper", {{"linear_workers", 0.0}}, 2)), Error);
}

TEST(Constant, IsTheScaledRateFromTheStart) {
  const auto schedule = make_schedule("constant", {{"base_lr", 0.5}}, 4);
  EXPECT_EQ(schedule->at(0), 2);
  EXPECT_EQ(schedule->at(1'000'000'000'000), 2);
}

TEST(Constant, WarmsUpFromTheBaseRate) {
  const auto schedule = make_schedule("constant", {{"base_lr", 0.5}, {"warmup_steps", 6.0}}, 4);
  EXPECT_EQ(schedule->at(0), 0.5);
  EXPECT_EQ(schedule->at(3), 1.25);
  EXPECT_EQ(schedule->at(6), 2);
  EXPECT_EQ(schedule->at(7), 2);
}

TEST(Constant, WarmsUpFromZeroOnRequest) {
  const auto schedule = make_schedule("constant", {{"base_lr", 0.5}, {"warmup_steps", 4.0}, {"warmup_start", "zero"}}, 1);
  EXPECT_EQ(schedule->at(0), 0);
  EXPECT_EQ(schedule->at(1), 0.125);
  EXPECT_EQ(schedule->at(4), 0.5);
}

TEST(Cosine, WarmsUpAndFallsToZero) {
  const auto schedule = make_schedule("cosine", {{"base_lr", 0.5}, {"warmup_steps", 6.0}, {"total_steps", 18.0}}, 4);
  EXPECT_EQ(schedule->at(0), 0.5);
  EXPECT_EQ(schedule->at(3), 1.25);
  EXPECT_EQ(schedule->at(6), 2);
  EXPECT_NEAR(schedule->at(10), 1.5, 1e-15);  // after a third of the decay: 1 + cos(60 degrees)
  EXPECT_NEAR(schedule->at(12), 1, 1e-15);
  EXPECT_NEAR(schedule->at(14), 0.5, 1e-15);
  EXPECT_EQ(schedule->at(18), 0);
  EXPECT_EQ(schedule->at(1'000'000'000'000), 0);
}

TEST(Cosine, NeedsStepsAfterTheWarmUp) {
  EXPECT_THROW(static_cast<void>(make_schedule("cosine", {{"warmup_steps", 18.0}, {"total_steps", 18.0}}, 1)), Error);
}

TEST(Polynomial, WarmsUpAndFallsToZero) {
  const auto schedule =
      make_schedule("polynomial", {{"base_lr", 0.5}, {"warmup_steps", 6.0}, {"total_steps", 18.0}, {"power", 2.0}}, 4);
  EXPECT_EQ(schedule->at(0), 0.5);
  EXPECT_EQ(schedule->at(3), 1.25);
  EXPECT_EQ(schedule->at(6), 2);
  EXPECT_NEAR(schedule->at(12), 0.5, 1e-15);  // after half of the decay: a quarter of the rate
  EXPECT_EQ(schedule->at(18), 0);
  EXPECT_EQ(schedule->at(1'000'000'000'000), 0);
}

TEST(Polynomial, FallsAlongALineWithPowerOneAndNotAtAllWithZero) {
  const auto line = make_schedule("polynomial", {{"base_lr", 0.5}, {"total_steps", 10.0}, {"power", 1.0}}, 1);
  const auto flat = make_schedule("polynomial", {{"base_lr", 0.5}, {"total_steps", 10.0}, {"power", 0.0}}, 1);
  for (std::int64_t step = 0; step < 10; ++step) {
    EXPECT_NEAR(line->at(step), 0.05 * static_cast<double>(10 - step), 1e-15);
    EXPECT_EQ(flat->at(step), 0.5);
  }
}

TEST(Polynomial, NeedsStepsAfterTheWarmUp) {
  EXPECT_THROW(static_cast<void>(make_schedule("polynomial", {{"warmup_steps", 18.0}, {"total_steps", 18.0}}, 1)), Error);
}

TEST(EverySchedule, StartsAtTheScaledRateWithoutWarmUpAndNeverExceedsIt) {
  for (const ScheduleRow& row : schedule_rows()) {
    const auto schedule = make_schedule(row.name, {{"base_lr", 0.5}}, 4);
    EXPECT_EQ(schedule->at(0), 2) << row.name;
    for (std::int64_t step = 1; step < 20'000; step += 97) {
      EXPECT_GE(schedule->at(step), 0) << row.name;
      EXPECT_LE(schedule->at(step), 2) << row.name;
    }
  }
}

TEST(MakeSchedule, RefusesOtherStartsAndFractionsOfSteps) {
  EXPECT_THROW(static_cast<void>(make_schedule("constant", {{"warmup_start", "half"}}, 1)), Error);
  EXPECT_THROW(static_cast<void>(make_schedule("constant", {{"warmup_steps", 1.5}}, 1)), Error);
  EXPECT_THROW(static_cast<void>(make_schedule("cubic", {}, 1)), Error);
}

}  // namespace
}  // namespace floodtide::optim
