// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::optim {
namespace {

TEST(Constant, IsTheScaledRateFromTheStart) {
  const Schedule schedule = make_schedule("constant", {{"base_lr", 0.5}});
  EXPECT_EQ(schedule.at(0, 4), 2);
  EXPECT_EQ(schedule.at(1'000'000'000'000, 4), 2);
}

TEST(Warmup, RisesLinearlyFromTheBaseRate) {
  const Schedule schedule = make_schedule("constant", {{"base_lr", 0.5}, {"warmup_steps", 6.0}});
  EXPECT_EQ(schedule.at(0, 4), 0.5);
  EXPECT_EQ(schedule.at(3, 4), 1.25);
  EXPECT_EQ(schedule.at(6, 4), 2);
  EXPECT_EQ(schedule.at(7, 4), 2);
}

TEST(Warmup, RisesFromZeroOnRequest) {
  const Schedule schedule = make_schedule("constant", {{"base_lr", 0.5}, {"warmup_steps", 4.0}, {"warmup_start", "zero"}});
  EXPECT_EQ(schedule.at(0, 1), 0);
  EXPECT_EQ(schedule.at(1, 1), 0.125);
  EXPECT_EQ(schedule.at(4, 1), 0.5);
}

TEST(Cosine, WarmsUpAndFallsToZero) {
  const Schedule schedule = make_schedule("cosine", {{"base_lr", 0.5}, {"warmup_steps", 6.0}, {"total_steps", 18.0}});
  EXPECT_EQ(schedule.at(0, 4), 0.5);
  EXPECT_EQ(schedule.at(3, 4), 1.25);
  EXPECT_EQ(schedule.at(6, 4), 2);
  EXPECT_NEAR(schedule.at(10, 4), 1.5, 1e-15);  // after a third of the decay: 1 + cos(60 degrees)
  EXPECT_NEAR(schedule.at(12, 4), 1, 1e-15);
  EXPECT_NEAR(schedule.at(14, 4), 0.5, 1e-15);
  EXPECT_EQ(schedule.at(18, 4), 0);
  EXPECT_EQ(schedule.at(1'000'000'000'000, 4), 0);
}

TEST(Cyclic, RisesAndFallsBetweenTheLowestAndTheScaledRate) {
  const Schedule schedule = make_schedule("cyclic", {{"base_lr", 0.5}, {"half_cycle", 10.0}, {"lowest", 0.2}});
  EXPECT_NEAR(schedule.at(0, 2), 0.2, 1e-15);
  EXPECT_NEAR(schedule.at(5, 2), 0.6, 1e-15);
  EXPECT_NEAR(schedule.at(10, 2), 1, 1e-15);
  EXPECT_NEAR(schedule.at(15, 2), 0.6, 1e-15);
  EXPECT_NEAR(schedule.at(20, 2), 0.2, 1e-15);
  EXPECT_NEAR(schedule.at(30, 2), 1, 1e-15);
}

TEST(Polynomial, WarmsUpAndFallsToZero) {
  const Schedule schedule =
      make_schedule("polynomial", {{"base_lr", 0.5}, {"warmup_steps", 6.0}, {"total_steps", 18.0}, {"power", 2.0}});
  EXPECT_EQ(schedule.at(0, 4), 0.5);
  EXPECT_EQ(schedule.at(6, 4), 2);
  EXPECT_NEAR(schedule.at(12, 4), 0.5, 1e-15);  // after half of the decay: a quarter of the rate
  EXPECT_EQ(schedule.at(18, 4), 0);
  EXPECT_EQ(schedule.at(1'000'000'000'000, 4), 0);
}

TEST(Polynomial, FallsAlongALineWithPowerOneAndNotAtAllWithZero) {
  const Schedule line = make_schedule("polynomial", {{"base_lr", 0.5}, {"total_steps", 10.0}, {"power", 1.0}});
  const Schedule flat = make_schedule("polynomial", {{"base_lr", 0.5}, {"total_steps", 10.0}, {"power", 0.0}});
  for (int step = 0; step < 10; ++step) {
    EXPECT_NEAR(line.at(step, 1), 0.05 * (10 - step), 1e-15);
    EXPECT_EQ(flat.at(step, 1), 0.5);
  }
}

TEST(Exponential, FallsSmoothlyOrInSteps) {
  const ParameterValues values{{"base_lr", 1.0}, {"decay", 0.25}, {"period", 10.0}};
  const Schedule smooth = make_schedule("exponential", values);
  EXPECT_NEAR(smooth.at(5, 2), 1, 1e-15);
  EXPECT_NEAR(smooth.at(20, 2), 0.125, 1e-15);
  ParameterValues stairs = values;
  stairs["staircase"] = 1.0;
  const Schedule staircase = make_schedule("exponential", stairs);
  EXPECT_EQ(staircase.at(9, 2), 2);
  EXPECT_EQ(staircase.at(10, 2), 0.5);
  EXPECT_EQ(staircase.at(29, 2), 0.125);
}

TEST(Step, FallsAtMilestonesAfterTheWarmUp) {
  const Schedule schedule =
      make_schedule("step", {{"base_lr", 1.0}, {"warmup_steps", 5.0}, {"milestones", "10,30"}, {"decay", 0.5}});
  EXPECT_EQ(schedule.at(14, 4), 4);
  EXPECT_EQ(schedule.at(15, 4), 2);
  EXPECT_EQ(schedule.at(34, 4), 2);
  EXPECT_EQ(schedule.at(35, 4), 1);
  EXPECT_EQ(make_schedule("step", {{"base_lr", 1.0}}).at(1'000'000, 4), 4);
  for (const char* wrong : {"x", "10,", "10,10", "20,10", "0,10", "10;20", "1e3", " 10", "99999999999999999999"}) {
    EXPECT_THROW(static_cast<void>(make_schedule("step", {{"milestones", wrong}})), Error) << wrong;
  }
}

TEST(EverySchedule, IsPositiveAndNotAboveTheScaledRate) {
  for (const ScheduleRow& row : schedule_rows()) {
    const Schedule schedule = make_schedule(row.name, {{"base_lr", 0.5}});
    for (int step = 0; step < 20'000; step += 97) {
      EXPECT_GE(schedule.at(step, 4), 0) << row.name;
      EXPECT_LE(schedule.at(step, 4), 2) << row.name;
    }
  }
}

TEST(EverySchedule, NeedsStepsAfterTheWarmUp) {
  for (const ScheduleRow& row : schedule_rows()) {
    const auto has = [&](const char* name) {
      return std::ranges::any_of(row.parameters, [&](const ParameterSpec& spec) { return spec.name == name; });
    };
    if (!has("total_steps")) continue;
    EXPECT_THROW(static_cast<void>(make_schedule(row.name, {{"warmup_steps", 18.0}, {"total_steps", 18.0}})), Error)
        << row.name;
  }
}

TEST(MakeSchedule, RefusesOtherStartsAndFractionsOfSteps) {
  EXPECT_THROW(static_cast<void>(make_schedule("constant", {{"warmup_start", "half"}})), Error);
  EXPECT_THROW(static_cast<void>(make_schedule("constant", {{"warmup_steps", 1.5}})), Error);
  EXPECT_THROW(static_cast<void>(make_schedule("cubic", {})), Error);
}

}  // namespace
}  // namespace floodtide::optim
