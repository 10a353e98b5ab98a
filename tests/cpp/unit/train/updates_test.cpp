// SPDX-License-Identifier: Apache-2.0
#include "train/updates.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::train {
namespace {

TEST(ParameterUpdates, StatisticsMoveTowardsWhatWasSeen) {
  ParameterLayout layout;
  layout.add("weights", {2});
  layout.add_statistic("mean", {2});
  std::vector<float> parameters = {1, 2, 10, -20};
  TrainerOptions options;
  options.clip = 0.5;
  ParameterUpdates updates(parameters, layout, optim::make_optimizer("sgd", {}, layout),
                           optim::make_schedule("constant", {{"base_lr", 0.1}}), optim::Scaling("none", {}, {}), 4, options);
  std::vector<float> message(kFlags + 4);
  message[kExamples] = 2;  // two of four examples, so that the weight of the gradients is doubled
  message[kFlags] = 0.125F;
  message[kFlags + 1] = 7;  // will be clipped
  message[kFlags + 2] = 5;
  message[kFlags + 3] = 15;

  updates.update(message, 0);

  EXPECT_FLOAT_EQ(parameters[0], 1 - 0.1F * 0.25F);
  EXPECT_FLOAT_EQ(parameters[1], 2 - 0.1F * 0.5F);
  EXPECT_FLOAT_EQ(parameters[2], 10.0F);  // 0.9 * 10 + 0.1 * 10
  EXPECT_FLOAT_EQ(parameters[3], 0.9F * -20 + 0.1F * 30);
}

TEST(ParameterUpdates, RateAndAverageFollowThePace) {
  ParameterLayout layout;
  layout.add("weights", {1});
  std::vector<float> parameters = {1};
  TrainerOptions options;
  options.average = 0.25;
  ParameterUpdates updates(parameters, layout, optim::make_optimizer("sgd", {}, layout),
                           optim::make_schedule("polynomial", {{"base_lr", 0.5}, {"total_steps", 100.0}, {"power", 1.0}}),
                           optim::Scaling("none", {}, {}), 1, options);
  EXPECT_EQ(updates.rate(50), 0.25);

  updates.set_pace({.step = 50, .planned = 50, .per_step = 0.5});

  EXPECT_EQ(updates.rate(50), 0.25);
  EXPECT_EQ(updates.rate(100), 0.125);
  std::vector<float> message(kFlags + 1);
  message[kExamples] = 1;
  updates.average()[0] = 0;
  updates.update(message, 50);
  EXPECT_FLOAT_EQ(updates.average()[0], 0.5F);  // the square root of 0.25 stays of 0, and as much comes of 1
}

constexpr std::int64_t kMany = 300'001;  // several pieces, the last one shorter than a vector register

ParameterLayout large_layout() {
  ParameterLayout layout;
  layout.add("first", {kMany});
  layout.add("second", {kMany});
  layout.add_statistic("mean", {kMany});
  return layout;
}

std::vector<float> random_values(std::int64_t count, std::uint64_t stream) {
  Philox random(7, stream);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform() - 0.5);
  return values;
}

/// Return the parameters and their average after three updates on a number of threads.
std::pair<std::vector<float>, std::vector<float>> updated(int threads) {
  set_num_threads(threads);
  const ParameterLayout layout = large_layout();
  std::vector<float> parameters = random_values(layout.size(), 0);
  TrainerOptions options;
  options.clip = 0.4;
  options.average = 0.9;
  ParameterUpdates updates(parameters, layout, optim::make_optimizer("adam", {}, layout),
                           optim::make_schedule("constant", {{"base_lr", 0.1}}), optim::Scaling("none", {}, {}), 4, options);
  for (std::int64_t step = 0; step < 3; ++step) {
    std::vector<float> message =
        random_values(static_cast<std::int64_t>(kFlags) + layout.size(), 1 + static_cast<std::uint64_t>(step));
    message[kExamples] = 3;  // three of four examples, so that the weight of the gradients is increased
    updates.update(message, step);
  }
  set_num_threads(1);
  return {parameters, {updates.average().begin(), updates.average().end()}};
}

TEST(ParameterUpdates, BitsDoNotDependOnTheNumberOfThreads) {
  const auto one = updated(1);
  EXPECT_EQ(updated(2), one);
  EXPECT_EQ(updated(5), one);
}

TEST(ParameterUpdates, TheFirstGradientThatIsNotFiniteIsNamed) {
  const ParameterLayout layout = large_layout();
  const TrainerOptions options;
  const auto failure_with = [&](std::vector<std::int64_t> broken) {
    std::vector<float> parameters(static_cast<std::size_t>(layout.size()), 1.0F);
    ParameterUpdates updates(parameters, layout, optim::make_optimizer("sgd", {}, layout),
                             optim::make_schedule("constant", {{"base_lr", 0.1}}), optim::Scaling("none", {}, {}), 1, options);
    std::vector<float> message(kFlags + static_cast<std::size_t>(layout.size()));
    message[kExamples] = 1;
    for (const std::int64_t i : broken) {
      message[kFlags + static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
    }
    try {
      updates.update(message, 6);
    } catch (const Error& error) {
      EXPECT_EQ(parameters, std::vector<float>(parameters.size(), 1.0F)) << "the parameters stay as they are";
      return std::string(error.what());
    }
    return std::string("no failure");
  };
  set_num_threads(3);
  EXPECT_EQ(failure_with({kMany - 1, kMany, 3 * kMany - 1}), "train: the averaged gradient of 'first' is not finite at step 6");
  EXPECT_EQ(failure_with({kMany, 2 * kMany}), "train: the averaged gradient of 'second' is not finite at step 6");
  EXPECT_EQ(failure_with({3 * kMany - 1}), "train: the averaged gradient of 'mean' is not finite at step 6");
  EXPECT_EQ(failure_with({}), "no failure");
  set_num_threads(1);
}

}  // namespace
}  // namespace floodtide::train
