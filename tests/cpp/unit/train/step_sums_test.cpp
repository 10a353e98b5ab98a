// SPDX-License-Identifier: Apache-2.0
#include "train/step_sums.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"
#include "support/threads.hpp"

namespace floodtide::train {
namespace {

constexpr std::int64_t kPerStep = 3, kLongest = 4;

StepSums sums_of(comm::Communicator& communicator, Timeline& timeline) {
  return {communicator, timeline, kPerStep, kLongest, std::string(comm::kDefaultAllreduce)};
}

TEST(StepSums, AddUpOverRanks) {
  comm::run_threads(3, [](comm::Communicator& communicator) {
    Timeline timeline;
    StepSums sums = sums_of(communicator, timeline);
    for (int step = 0; step < 2; ++step) {
      sums.begin(step);
      for (std::size_t length = 1; length <= 3; ++length) {
        std::vector<double> numbers(length, communicator.rank() + 1.0);
        sums.add(numbers);
        EXPECT_EQ(numbers, std::vector<double>(length, 6.0));
      }
      sums.abandon();  // no other rank waits for a sum
    }
  });
}

TEST(StepSums, ARankThatFailsKeepsNobodyWaiting) {
  std::atomic<int> left = 0;
  comm::run_threads(3, [&](comm::Communicator& communicator) {
    Timeline timeline;
    StepSums sums = sums_of(communicator, timeline);
    sums.begin(0);
    double number = 1;
    sums.add({&number, 1});
    EXPECT_EQ(number, 3);
    if (communicator.rank() == 1) {
      sums.abandon();
      return;
    }
    try {
      sums.add({&number, 1});
    } catch (const StepAbandoned&) {
      ++left;
    }
    sums.abandon();  // all ranks have ended the step, so that this makes no further sum
  });
  EXPECT_EQ(left, 2);
}

}  // namespace
}  // namespace floodtide::train
