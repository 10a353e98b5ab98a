// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_limit.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

namespace floodtide::data {
namespace {

double processor_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(Hdf5LimitDeathTest, EndsTheProcessWithOneLineWhenACallTakesTooMuchProcessorTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::string path = "damaged.h5";
        const Hdf5Limit limit(path, 0, 0.1);
        const double end_s = processor_s() + 60;
        while (processor_s() < end_s) {
        }
      },
      testing::ExitedWithCode(2),
      "^damaged.h5: is damaged: the HDF5 library does not come to an end with it \\(0.1 s [^\n]*\n$");
}

TEST(Hdf5Limit, DoesNotCountTheTimeOfWaiting) {
  const std::string path = "slow.h5";
  const Hdf5Limit limit(path, 0, 0.2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // time for two checks of the limit
}

TEST(Hdf5Limit, EndsWithItsScope) {
  const std::string path = "whole.h5";
  {
    const Hdf5Limit limit(path, 0, 0.05);
  }
  const double end_s = processor_s() + 0.2;
  while (processor_s() < end_s) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
}

}  // namespace
}  // namespace floodtide::data
