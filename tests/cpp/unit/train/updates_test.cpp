// SPDX-License-Identifier: Apache-2.0
#include "train/updates.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace floodtide::train {
namespace {

TEST(ParameterUpdates, StatisticsMoveTowardsWhatWasSeen) {
  ParameterLayout layout;
  layout.add("weights", {2});
  layout.add_statistic("mean", {2});
  std::vector<float> parameters = {1, 2, 10, -20};
  TrainerOptions options;
  options.clip = 0.5;
  ParameterUpdates updates(parameters, layout, optim::make_optimizer("sgd", {}, layout.trained_size()),
                           optim::make_schedule("constant", {{"base_lr", 0.1}}, 1.0), 4, options);
  std::vector<float> message(kFlags + 4);
  message[kExamples] = 2;  // of four: what came weighs twice
  message[kFlags] = 0.125F;
  message[kFlags + 1] = 7;  // is clipped
  message[kFlags + 2] = 5;
  message[kFlags + 3] = 15;

  updates.update(message, 0);

  EXPECT_FLOAT_EQ(parameters[0], 1 - 0.1F * 0.25F);
  EXPECT_FLOAT_EQ(parameters[1], 2 - 0.1F * 0.5F);
  EXPECT_FLOAT_EQ(parameters[2], 10.0F);  // 0.9 * 10 + 0.1 * 10
  EXPECT_FLOAT_EQ(parameters[3], 0.9F * -20 + 0.1F * 30);
}

}  // namespace
}  // namespace floodtide::train
