// SPDX-License-Identifier: Apache-2.0
// Tests of schedules without running them: steps and bytes follow the formulas, and the schedules of the ranks fit together.
#include "floodtide/comm/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide {
namespace {

std::vector<comm::MessageSchedule> schedules(std::string_view algorithm, int size, std::int64_t count,
                                             const std::vector<int>& nodes = {}) {
  std::vector<comm::MessageSchedule> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(comm::allreduce_row(algorithm).schedule({rank, size, nodes}, count));
  return all;
}

std::vector<int> nodes_of(int size, int ranks_per_node) {
  std::vector<int> nodes;
  for (int rank = 0; rank < size; ++rank) nodes.push_back(rank / ranks_per_node);
  return nodes;
}

/// Cost of a schedule for one rank.
struct ScheduleCost {
  int steps = 0;
  std::int64_t bytes = 0;       // elements sent
  std::int64_t reductions = 0;  // elements combined with arriving elements
};

ScheduleCost cost_of(const comm::MessageSchedule& schedule) {
  ScheduleCost total;
  for (const comm::MessageStep& step : schedule.steps) {
    ++total.steps;
    if (step.send_to != comm::kNobody) total.bytes += step.sent.size();
    if (step.receive_from != comm::kNobody && step.reduce) total.reductions += step.received.size();
  }
  return total;
}

int log2_floor(int value) { return std::bit_width(static_cast<unsigned>(value)) - 1; }

bool is_power_of_two(int value) { return std::has_single_bit(static_cast<unsigned>(value)); }

class RanksAndCount : public testing::TestWithParam<std::pair<int, std::int64_t>> {};

TEST_P(RanksAndCount, EveryMessageSentIsExpectedWithItsLength) {
  const auto [size, count] = GetParam();
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (row.schedule == nullptr) continue;
    for (const int ranks_per_node : {1, 3, size}) {
      std::map<std::pair<int, int>, std::vector<std::int64_t>> sent;
      std::map<std::pair<int, int>, std::vector<std::int64_t>> expected;
      const auto all = schedules(row.name, size, count, nodes_of(size, ranks_per_node));
      for (int rank = 0; rank < size; ++rank) {
        for (const comm::MessageStep& step : all[static_cast<std::size_t>(rank)].steps) {
          ASSERT_NE(step.send_to, rank);
          ASSERT_TRUE(step.sent.begin >= 0 && step.sent.end <= count && step.received.begin >= 0 && step.received.end <= count);
          if (step.send_to >= 0) sent[{rank, step.send_to}].push_back(step.sent.end - step.sent.begin);
          if (step.receive_from >= 0) expected[{step.receive_from, rank}].push_back(step.received.end - step.received.begin);
        }
      }
      EXPECT_EQ(sent, expected) << row.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, RanksAndCount, testing::ValuesIn([] {
                           std::vector<std::pair<int, std::int64_t>> all;
                           for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 64}) {
                             for (const std::int64_t count : {0, 1, 2, size - 1, size, size + 1, 97, 472353}) {
                               all.emplace_back(size, count);
                             }
                           }
                           return all;
                         }()));

TEST(Schedules, RingHasTheStepsAndBytesOfItsFormula) {
  for (const int size : {2, 3, 8, 33, 1024}) {
    const std::int64_t count = 1000 * size;
    for (const auto& schedule : schedules("ring", size, count)) {
      EXPECT_EQ(cost_of(schedule).steps, 2 * (size - 1));
      EXPECT_EQ(cost_of(schedule).bytes, 2 * count * (size - 1) / size);
      EXPECT_EQ(cost_of(schedule).reductions, count * (size - 1) / size);
    }
  }
}

TEST(Schedules, RecursiveDoublingHasTheStepsAndBytesOfItsFormula) {
  constexpr std::int64_t kCount = 1000;
  for (const int size : {2, 3, 6, 8, 13, 1024}) {
    const int rounds = log2_floor(size);
    int most_steps = 0;
    std::int64_t most_bytes = 0;
    for (const auto& schedule : schedules("recursive_doubling", size, kCount)) {
      most_steps = std::max(most_steps, cost_of(schedule).steps);
      most_bytes = std::max(most_bytes, cost_of(schedule).bytes);
    }
    EXPECT_EQ(most_steps, is_power_of_two(size) ? rounds : rounds + 2) << size;
    EXPECT_EQ(most_bytes, is_power_of_two(size) ? kCount * rounds : kCount * (rounds + 1)) << size;
  }
}

TEST(Schedules, RabenseifnerHasTheStepsAndBytesOfItsFormula) {
  for (const int size : {2, 3, 5, 6, 7, 8, 13, 1000, 1024}) {
    const int rounds = log2_floor(size);
    const std::int64_t members = std::int64_t{1} << rounds;
    const std::int64_t count = 100 * members;
    int most_steps = 0;
    std::int64_t most_bytes = 0;
    for (const auto& schedule : schedules("rabenseifner", size, count)) {
      const ScheduleCost cost = cost_of(schedule);
      most_steps = std::max(most_steps, cost.steps);
      most_bytes = std::max(most_bytes, cost.bytes);
      if (is_power_of_two(size)) {
        EXPECT_EQ(cost.steps, 2 * rounds);
        EXPECT_EQ(cost.bytes, 2 * count * (size - 1) / size);
        EXPECT_EQ(cost.reductions, count * (size - 1) / size);
      }
    }
    if (is_power_of_two(size)) continue;
    EXPECT_EQ(most_steps, 2 * rounds + 2) << size;
    EXPECT_EQ(most_bytes, 5 * count / 2 - 2 * count / members) << size;
  }
}

TEST(Schedules, TwoLevelsSendOnlyAShardToOtherNodes) {
  for (const auto& [nodes, ranks_per_node] : {std::pair{4, 4}, {8, 2}, {16, 64}, {1, 8}}) {
    const int size = nodes * ranks_per_node;
    const std::int64_t count = std::int64_t{100} * size;
    const std::vector<int> node_of_rank = nodes_of(size, ranks_per_node);
    const auto all = schedules("two_level", size, count, node_of_rank);
    for (int rank = 0; rank < size; ++rank) {
      const comm::MessageSchedule& schedule = all[static_cast<std::size_t>(rank)];
      std::int64_t outside = 0;
      for (const comm::MessageStep& step : schedule.steps) {
        if (step.send_to < 0) continue;
        if (node_of_rank[static_cast<std::size_t>(step.send_to)] != node_of_rank[static_cast<std::size_t>(rank)]) {
          outside += step.sent.end - step.sent.begin;
        }
      }
      EXPECT_EQ(outside, 2 * (count / ranks_per_node) * (nodes - 1) / nodes);
      EXPECT_EQ(cost_of(schedule).steps, 2 * (ranks_per_node - 1) + 2 * log2_floor(nodes));
      EXPECT_EQ(cost_of(schedule).bytes, 2 * count * (ranks_per_node - 1) / ranks_per_node + outside);
    }
  }
}

TEST(Schedules, OneRankAndNoElementsNeedNone) {
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (row.schedule == nullptr) continue;
    EXPECT_TRUE(row.schedule({0, 1}, 10).steps.empty()) << row.name;
    EXPECT_TRUE(row.schedule({2, 5}, 0).steps.empty()) << row.name;
  }
}

std::string message_of_parse(std::string_view text) {
  try {
    static_cast<void>(comm::AllreduceTable::parse(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(AllreduceTable, ChoosesBySize) {
  const auto table = comm::AllreduceTable::parse("recursive_doubling:0-8192,rabenseifner:8193-1000000,ring:1000001-");
  EXPECT_EQ(table.algorithm(0), "recursive_doubling");
  EXPECT_EQ(table.algorithm(8192), "recursive_doubling");
  EXPECT_EQ(table.algorithm(8193), "rabenseifner");
  EXPECT_EQ(table.algorithm(std::int64_t{1} << 40), "ring");
  EXPECT_EQ(comm::AllreduceTable::parse("two_level").algorithm(5), "two_level");
  EXPECT_NO_THROW(static_cast<void>(comm::AllreduceTable::parse(comm::kDefaultAllreduce)));
}

TEST(AllreduceTable, SaysWhatIsWrongWithAText) {
  EXPECT_NE(message_of_parse("").find("unknown algorithm ''"), std::string::npos);
  EXPECT_NE(message_of_parse("torus:0-").find("unknown algorithm 'torus'"), std::string::npos);
  EXPECT_NE(message_of_parse("ring:0-5").find("the last range must be open, as in ring:6-"), std::string::npos);
  EXPECT_NE(message_of_parse("ring:0-5,mpi:7-").find("'mpi:7-', expected a range that begins at 6"), std::string::npos);
  EXPECT_NE(message_of_parse("ring:0-,mpi:7-").find("only the last range may be open"), std::string::npos);
  EXPECT_NE(message_of_parse("ring:0-x").find("'x' is no number of bytes"), std::string::npos);
  EXPECT_NE(message_of_parse("ring:0-5,mpi").find("'mpi' is not as name:first-last"), std::string::npos);
}

}  // namespace
}  // namespace floodtide
