// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/exact_sum.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "support/threads.hpp"
#include "support/watchdog.hpp"

namespace floodtide::comm {
namespace {

constexpr std::int64_t kLength = 1000;
const std::vector<Range> kParts = {{0, 1}, {1, 600}, {600, 600}, {600, 1000}};

/// Return array `number`: normal numbers, which are a million times smaller in one part.
std::vector<float> array(std::int64_t number) {
  Philox random(9, static_cast<std::uint64_t>(number));
  std::vector<float> values(kLength);
  for (std::int64_t i = 0; i < kLength; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<float>(random.normal() * (i < 600 ? 1.0 : 1e-6));
  }
  return values;
}

/// Return the sum of `arrays` arrays, which are distributed over the ranks in turn.
std::vector<float> sum_on(int ranks, std::int64_t arrays, const std::string& algorithm, int threads = 1) {
  std::vector<float> result;
  std::mutex mutex;
  run_threads(ranks, [&](Communicator& comm) {
    set_num_threads(threads);
    std::vector<float> own;
    for (std::int64_t number = comm.rank(); number < arrays; number += comm.size()) {
      const std::vector<float> values = array(number);
      own.insert(own.end(), values.begin(), values.end());
    }
    std::vector<float> sum(kLength);
    ExactSum(comm, kParts, arrays, algorithm).run(own, sum);
    const std::lock_guard lock(mutex);
    if (result.empty()) result = sum;
    EXPECT_EQ(sum, result) << "rank " << comm.rank();
  });
  return result;
}

TEST(ExactSum, GivesTheSameBitsOnAnyNumberOfRanksByAnyAlgorithm) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  const std::vector<float> expected = sum_on(1, 7, "ring");
  for (const int ranks : {2, 3, 4, 8}) {
    for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
      if (row.schedule == nullptr) continue;
      EXPECT_EQ(sum_on(ranks, 7, std::string(row.name)), expected) << ranks << ' ' << row.name;
    }
  }
  EXPECT_EQ(sum_on(2, 7, "ring", 3), expected) << "on three threads";
}

TEST(ExactSum, IsWithinOneRoundingOfTheSum) {
  const std::vector<float> sum = sum_on(1, 7, "ring");
  for (std::int64_t i = 0; i < kLength; ++i) {
    double wide = 0;
    for (std::int64_t number = 0; number < 7; ++number) wide += array(number)[static_cast<std::size_t>(i)];
    const double largest = i < 600 ? 5 : 5e-6;
    const double bound = std::abs(wide) * std::numeric_limits<float>::epsilon() / 2 + largest * std::ldexp(1.0, -52);
    EXPECT_NEAR(sum[static_cast<std::size_t>(i)], wide, bound) << i;
  }
}

TEST(ExactSum, TakesZerosLargestAndSmallestNumbers) {
  const auto comm = self();
  constexpr float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  const std::vector<float> own = {0, 0, most, -most, least, 0, 0, most / 2, -most, least};
  std::vector<float> sum(5);
  ExactSum(*comm, {{0, 2}, {2, 4}, {4, 5}}, 2, "ring").run(own, sum);
  EXPECT_EQ(sum[0], 0);
  EXPECT_TRUE(std::isinf(sum[2]));  // the sum is larger than the largest float
  EXPECT_TRUE(std::isinf(sum[3]));
  EXPECT_EQ(sum[4], 2 * least);
}

TEST(ExactSum, WhatIsNotFiniteSpoilsItsPartOnly) {
  const auto comm = self();
  const std::vector<float> own = {1, std::numeric_limits<float>::quiet_NaN(), 3, std::numeric_limits<float>::infinity(), 5};
  std::vector<float> sum(5);
  ExactSum(*comm, {{0, 2}, {2, 3}, {3, 5}}, 1, "ring").run(own, sum);
  EXPECT_TRUE(std::isnan(sum[0]));
  EXPECT_EQ(sum[2], 3);
  EXPECT_TRUE(std::isnan(sum[4]));
}

TEST(ExactSum, RefusesWhatDoesNotFit) {
  const auto comm = self();
  std::vector<float> values(5), sum(4);
  EXPECT_THROW(ExactSum(*comm, {{0, 4}}, 0, "ring"), Error);
  EXPECT_THROW(ExactSum(*comm, {{0, 4}}, 1, "ring").run(values, sum), Error);
}

}  // namespace
}  // namespace floodtide::comm
