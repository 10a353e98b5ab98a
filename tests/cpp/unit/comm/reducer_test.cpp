// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/reducer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/comm/collectives.hpp"
#include "support/threads.hpp"
#include "support/watchdog.hpp"

namespace floodtide::comm {
namespace {

/// Return consecutive ranges of these lengths.
std::vector<Range> parts_of(const std::vector<std::int64_t>& lengths) {
  std::vector<Range> parts;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    parts.push_back({begin, begin + length});
    begin += length;
  }
  return parts;
}

const std::vector<std::int64_t> kLengths = {7, 100, 1, 64, 0, 300, 33, 5};
constexpr std::int64_t kTotal = 510;

/// Return element i of a rank at `step`. Values are integers, so that sums are exact in any order.
float value(int rank, std::int64_t step, std::int64_t i) { return static_cast<float>((rank + 1) * (i % 97) + step); }

std::vector<float> expected_sum(int size, std::int64_t step) {
  std::vector<float> sum(kTotal);
  for (std::int64_t i = 0; i < kTotal; ++i) {
    for (int rank = 0; rank < size; ++rank) sum[static_cast<std::size_t>(i)] += value(rank, step, i);
  }
  return sum;
}

class ReducerRanks : public testing::TestWithParam<int> {
 private:
  test::Watchdog watchdog_{std::chrono::seconds(60)};
};

TEST_P(ReducerRanks, SumsWhateverTheOrderInWhichPartsBecomeReady) {
  run_threads(GetParam(), [](Communicator& comm) {
    std::vector<float> values(kTotal);
    Reducer reducer(comm, values, parts_of(kLengths), {.bucket_bytes = 256, .algorithm = "ring"}, nullptr);
    Philox random(5, static_cast<std::uint64_t>(comm.rank()));  // a different order on every rank
    for (std::int64_t step = 0; step < 20; ++step) {
      reducer.begin(step);
      for (std::int64_t i = 0; i < kTotal; ++i) values[static_cast<std::size_t>(i)] = value(comm.rank(), step, i);
      std::vector<std::size_t> order(kLengths.size());
      std::iota(order.begin(), order.end(), 0U);
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
      const std::size_t told = random.below(order.size() + 1);  // finish() declares the other parts ready
      for (std::size_t i = 0; i < told; ++i) reducer.ready(order[i]);
      reducer.finish();
      ASSERT_EQ(values, expected_sum(comm.size(), step)) << "step " << step;
    }
  });
}

TEST_P(ReducerRanks, SumsDoNotDependOnOverlap) {
  run_threads(GetParam(), [](Communicator& comm) {
    std::vector<float> start(kTotal);
    Philox random(6, static_cast<std::uint64_t>(comm.rank()));
    for (float& x : start) x = static_cast<float>(random.normal());
    std::vector<float> overlapped = start, at_once = start;
    Reducer first(comm, overlapped, parts_of(kLengths), {.bucket_bytes = 200, .algorithm = "rabenseifner"}, nullptr);
    first.begin(0);
    for (std::size_t part = kLengths.size(); part > 0; --part) {
      first.ready(part - 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(comm.rank()));
    }
    first.finish();
    Reducer second(comm, at_once, parts_of(kLengths), {.bucket_bytes = 200, .algorithm = "rabenseifner"}, nullptr);
    second.begin(0);
    second.finish();
    EXPECT_EQ(overlapped, at_once);
  });
}

TEST_P(ReducerRanks, BucketsAreCutFromTheEndAndSentAsTheyBecameReadyOnRank0) {
  run_threads(GetParam(), [](Communicator& comm) {
    std::vector<float> values(35);
    // Buckets have at least 10 values, and are cut from the end: parts {3}, {2}, {0, 1}.
    Reducer reducer(comm, values, parts_of({5, 5, 10, 15}), {.bucket_bytes = 40, .algorithm = "ring"}, nullptr);
    ASSERT_EQ(reducer.buckets(), 3U);
    std::vector<std::vector<std::size_t>> sent;
    reducer.set_hook([&](const Bucket& bucket) {
      EXPECT_EQ(bucket.index, sent.size());
      EXPECT_EQ(bucket.last, sent.size() == 2);
      sent.emplace_back(bucket.parts.begin(), bucket.parts.end());
    });
    const std::vector<std::size_t> forwards = {0, 1, 2, 3}, backwards = {3, 2, 1, 0};
    const auto step = [&](const std::vector<std::size_t>& ready) {
      sent.clear();
      reducer.begin(0);
      for (const std::size_t part : ready) reducer.ready(part);
      reducer.finish();
      return sent;
    };
    using Order = std::vector<std::vector<std::size_t>>;
    EXPECT_EQ(step(comm.rank() == 0 ? forwards : backwards), (Order{{3}, {2}, {0, 1}}));
    EXPECT_EQ(step(backwards), (Order{{0, 1}, {2}, {3}}));  // from now on, the order of rank 0 in the first step
    EXPECT_EQ(step(forwards), (Order{{0, 1}, {2}, {3}}));
  });
}

TEST_P(ReducerRanks, AHookStandsInForTheAllreduce) {
  run_threads(GetParam(), [](Communicator& comm) {
    std::vector<float> values(kTotal, 1.0F);
    Reducer reducer(comm, values, parts_of(kLengths), {.bucket_bytes = 512}, nullptr);
    reducer.set_hook([&](const Bucket& bucket) {
      for (float& x : bucket.values) x *= 3;
      allreduce(comm, bucket.values, ReduceOp::sum);
    });
    reducer.begin(0);
    reducer.finish();
    EXPECT_EQ(values, std::vector<float>(kTotal, 3.0F * static_cast<float>(comm.size())));
  });
}

TEST_P(ReducerRanks, ANarrowWireDoesNotRoundExactParts) {
  run_threads(GetParam(), [](Communicator& comm) {
    std::vector<float> values(6, 257.0F);  // bfloat16 has 256 and 258
    Reducer reducer(comm, values, parts_of({2, 1, 3}), {.bucket_bytes = 4, .wire = Wire::bf16, .exact_parts = 1}, nullptr);
    EXPECT_EQ(reducer.buckets(), 3U);
    reducer.begin(0);
    reducer.finish();
    EXPECT_EQ(values[0], 257.0F * static_cast<float>(comm.size()));
    EXPECT_EQ(values[1], values[0]);
    EXPECT_EQ(values[5] == values[0], comm.size() == 1) << "other parts are rounded";
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ReducerRanks, testing::Values(1, 2, 3, 4));

TEST(Reducer, ABucketTravelsWhileTheNextPartIsComputed) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  run_threads(2, [](Communicator& comm) {
    Timeline timeline;
    std::vector<float> values(2000, 1.0F);
    Reducer reducer(comm, values, parts_of({1000, 1000}), {.bucket_bytes = 4000, .algorithm = "ring"}, &timeline);
    reducer.begin(3);
    reducer.ready(1);
    // Only the thread of the reducer can finish the first bucket now.
    while (timeline.last().empty() || timeline.last()[0].end_ns < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Timeline::Event first = timeline.last()[0];
    EXPECT_EQ(first.step, 3);
    EXPECT_EQ(first.bucket, 0);
    EXPECT_EQ(first.bytes, 4000);
    EXPECT_EQ(values[1999], 2.0F);
    EXPECT_EQ(values[0], 1.0F);
    reducer.ready(0);
    reducer.finish();
    EXPECT_EQ(values[0], 2.0F);
  });
}

TEST(Reducer, ALostRankIsAnErrorOfFinish) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  EXPECT_THROW(run_threads(2,
                           [](Communicator& comm) {
                             if (comm.rank() == 1) raise(ErrorCode::io, "the disk is full");
                             std::vector<float> values(100);
                             Reducer reducer(comm, values, parts_of({100}), {.algorithm = "ring"}, nullptr);
                             reducer.begin(0);
                             EXPECT_THROW(reducer.finish(), Error);
                           }),
               Error);
}

TEST(Reducer, RefusesPartsThatDoNotFit) {
  const auto comm = self();
  std::vector<float> values(10);
  EXPECT_THROW(Reducer(*comm, values, parts_of({5, 4}), {}, nullptr), Error);
  EXPECT_THROW(Reducer(*comm, values, {{0, 5}, {6, 10}}, {}, nullptr), Error);
  EXPECT_THROW(Reducer(*comm, values, parts_of({10}), {.bucket_bytes = 3}, nullptr), Error);
}

}  // namespace
}  // namespace floodtide::comm
