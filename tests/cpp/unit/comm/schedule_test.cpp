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

constexpr std::int64_t kWhole = std::int64_t{1} << 40;  // a segment so long that messages are not split

std::vector<comm::MessageSchedule> schedules(std::string_view algorithm, int size, std::int64_t count,
                                             const std::vector<int>& nodes = {}) {
  std::vector<comm::MessageSchedule> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(comm::allreduce_schedule(algorithm, {rank, size, nodes}, count));
  return all;
}

std::vector<int> nodes_of(int size, int ranks_per_node) {
  std::vector<int> nodes;
  for (int rank = 0; rank < size; ++rank) nodes.push_back(rank / ranks_per_node);
  return nodes;
}

comm::ScheduleCost cost_of(const comm::MessageSchedule& schedule) { return comm::cost(schedule, 1, kWhole); }

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
      const comm::ScheduleCost cost = cost_of(schedule);
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

TEST_P(RanksAndCount, RoundsAreThoseOfTheSchedules) {
  const auto [size, elements] = GetParam();
  if (elements < size) return;
  const std::int64_t count = std::int64_t{6400} * size;  // all chunks and halves are whole
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (row.rounds == nullptr) continue;
    for (const int ranks_per_node : {1, 4, 8, size}) {
      if (size % ranks_per_node != 0) continue;
      SCOPED_TRACE(testing::Message() << row.name << ", " << size << " ranks, " << ranks_per_node << " a node");
      const std::vector<int> nodes = nodes_of(size, ranks_per_node);
      comm::ScheduleCost most;
      bool alike = true;                                         // all ranks have the same cost
      std::vector<double> left(static_cast<std::size_t>(size));  // by node
      const auto all = schedules(row.name, size, count, nodes);
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const comm::ScheduleCost cost = cost_of(all[rank]);
        most.steps = std::max(most.steps, cost.steps);
        most.bytes = std::max(most.bytes, cost.bytes);
        most.reductions = std::max(most.reductions, cost.reductions);
        alike = alike && cost.bytes == most.bytes && cost.reductions == most.reductions;
        for (const comm::MessageStep& step : all[rank].steps) {
          const auto node = static_cast<std::size_t>(nodes[rank]);
          if (step.send_to < 0 || nodes[static_cast<std::size_t>(step.send_to)] == nodes[rank]) continue;
          left[node] += static_cast<double>(step.sent.end - step.sent.begin);
        }
      }
      double steps = 0;
      double bytes = 0;
      double reduced = 0;
      double leaving = 0;
      for (const comm::MessageRounds& rounds :
           comm::allreduce_rounds(row.name, static_cast<double>(count), {.ranks = size, .per_node = ranks_per_node})) {
        steps += rounds.count;
        bytes += rounds.count * rounds.bytes;
        reduced += rounds.reduce ? rounds.count * rounds.bytes : 0;
        leaving += rounds.count * rounds.bytes * rounds.leaving;
      }
      // Where ranks differ, some wait for others: the rounds together cost more than any rank.
      const auto compare = [&](double modelled, double counted, const char* what) {
        const double rounding = 1e-12 * modelled;
        EXPECT_GE(modelled, counted - rounding) << what;
        if (alike) {
          EXPECT_NEAR(modelled, counted, rounding) << what;
        }
      };
      compare(steps, most.steps, "steps");
      compare(bytes, static_cast<double>(most.bytes), "bytes");
      compare(reduced, static_cast<double>(most.reductions), "reduced");
      compare(leaving, *std::ranges::max_element(left), "bytes that leave a node");
    }
  }
}

TEST(Schedules, NarrowElementsHalveTheBytesAndSegmentsCutMessages) {
  const comm::MessageSchedule schedule = comm::allreduce_schedule("ring", {1, 4}, 1000);
  EXPECT_EQ(comm::cost(schedule, 4, 100).bytes, 2 * comm::cost(schedule, 2, 100).bytes);
  EXPECT_EQ(comm::cost(schedule, 4, 100).messages, 6 * 3);  // chunks of 250
  EXPECT_EQ(comm::cost(schedule, 4, 100).steps, 6);
}

TEST(Schedules, OneRankAndNoElementsNeedNone) {
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (row.schedule == nullptr) continue;
    EXPECT_TRUE(comm::allreduce_schedule(row.name, {0, 1}, 10).steps.empty()) << row.name;
    EXPECT_TRUE(comm::allreduce_schedule(row.name, {2, 5}, 0).steps.empty()) << row.name;
    EXPECT_TRUE(comm::allreduce_rounds(row.name, 10, {.ranks = 1}).empty()) << row.name;
  }
}

TEST(Schedules, WrongPlacesAreErrors) {
  const std::vector<int> two = {0, 1};
  EXPECT_THROW(static_cast<void>(comm::allreduce_schedule("mpi", {0, 2}, 1)), Error);
  EXPECT_THROW(static_cast<void>(comm::allreduce_schedule("torus", {0, 2}, 1)), Error);
  EXPECT_THROW(static_cast<void>(comm::allreduce_schedule("ring", {2, 2}, 1)), Error);
  EXPECT_THROW(static_cast<void>(comm::allreduce_schedule("ring", {0, 2}, -1)), Error);
  EXPECT_THROW(static_cast<void>(comm::allreduce_schedule("two_level", {0, 3, two}, 1)), Error);
  EXPECT_THROW(static_cast<void>(comm::cost({}, 4, 0)), Error);
  EXPECT_THROW(static_cast<void>(comm::allreduce_rounds("mpi", 1, {.ranks = 2})), Error);
  EXPECT_THROW(static_cast<void>(comm::allreduce_rounds("ring", -1, {.ranks = 2})), Error);
  EXPECT_THROW(static_cast<void>(comm::allreduce_rounds("ring", 1, {.ranks = 0})), Error);
  EXPECT_THROW(static_cast<void>(comm::allreduce_rounds("ring", 1, {.ranks = 2, .per_node = 0})), Error);
}

std::string message_of_parse(std::string_view text) {
  try {
    static_cast<void>(comm::AllreduceTable::parse(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(AllreduceTable, ChoosesBySizeAndReadsItsOwnText) {
  const auto table = comm::AllreduceTable::parse("recursive_doubling:0-8192,rabenseifner:8193-1000000,ring:1000001-");
  EXPECT_EQ(table.algorithm(0), "recursive_doubling");
  EXPECT_EQ(table.algorithm(8192), "recursive_doubling");
  EXPECT_EQ(table.algorithm(8193), "rabenseifner");
  EXPECT_EQ(table.algorithm(std::int64_t{1} << 40), "ring");
  EXPECT_EQ(comm::AllreduceTable::parse(table.text()).text(), table.text());
  EXPECT_EQ(comm::AllreduceTable::parse("two_level").algorithm(5), "two_level");
  EXPECT_EQ(comm::AllreduceTable::parse("two_level").text(), "two_level");
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
