// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "support/collective_checks.hpp"
#include "support/collective_values.hpp"

namespace floodtide::test {
namespace {

using comm::Communicator;
using comm::Operation;
using comm::ReduceOp;
using comm::ReduceType;

constexpr std::int64_t kLength = 10;

/// Arrays that the ranks pass to a collective. They must not change if ranks differ.
struct Arrays {
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> integers;

  explicit Arrays(int rank)
      : floats(values_of<float>(rank, kLength + 1)),
        doubles(values_of<double>(rank, kLength)),
        integers(values_of<std::int64_t>(rank, kLength)) {}
  bool operator==(const Arrays&) const = default;

  [[nodiscard]] comm::ReduceBuffer of(ReduceType type, std::int64_t count = kLength) {
    if (type == ReduceType::float64) return {std::as_writable_bytes(std::span(doubles)).data(), count, type};
    if (type == ReduceType::int64) return {std::as_writable_bytes(std::span(integers)).data(), count, type};
    return {std::as_writable_bytes(std::span(floats)).data(), count, type};
  }
  [[nodiscard]] std::span<std::byte> bytes() {
    return std::as_writable_bytes(std::span(floats)).first(kLength * sizeof(float));
  }
};

using Start = std::function<Operation(Communicator&, Arrays&)>;

/// Two calls that differ, and their texts in the error message.
struct Case {
  Start usual, odd;
  std::string usual_text, odd_text;
};

Start reducing(const comm::AllreduceOptions& options, ReduceType type = ReduceType::float32, ReduceOp op = ReduceOp::sum,
               std::int64_t count = kLength) {
  return [=](Communicator& comm, Arrays& arrays) { return comm::start_allreduce(comm, arrays.of(type, count), op, options); };
}

Start broadcasting(int root, std::string_view words = {}) {
  return [=](Communicator& comm, Arrays& arrays) { return comm::start_broadcast(comm, arrays.bytes(), root, words); };
}

Operation start_reduce_scatter(Communicator& comm, Arrays& arrays) {
  return comm::start_reduce_scatter(comm, arrays.of(ReduceType::float32), ReduceOp::sum,
                                    comm::even_blocks(kLength, comm.size()));
}

Operation start_allgather(Communicator& comm, Arrays& arrays) {
  return comm::start_allgather(comm, arrays.bytes(), comm::even_blocks(std::ssize(arrays.bytes()), comm.size()));
}

Operation start_lengths(Communicator& comm, Arrays& arrays) {  // an allgather of bytes, which begins with an allreduce
  static_cast<void>(comm::allgather(comm, arrays.bytes()));
  return {};
}

Operation start_sum_like_lengths(Communicator& comm, Arrays& arrays) {
  return comm::start_allreduce(comm, arrays.of(ReduceType::int64, std::min<std::int64_t>(kLength, comm.size() + 1)),
                               ReduceOp::sum, {.algorithm = "recursive_doubling"});
}

std::vector<Case> cases(bool has_library_allreduce, int ranks) {
  const comm::AllreduceOptions ring{.algorithm = "ring"};
  const auto with_words = [](std::string_view words) { return reducing({.algorithm = "ring", .words = words}); };
  const std::string sum = "allreduce (sum of 10 float32)";
  std::vector<Case> all = {
      // Type, also with the same number of bytes; operation; length.
      {reducing(ring), reducing(ring, ReduceType::int64), sum, "allreduce (sum of 10 int64)"},
      {reducing(ring, ReduceType::float64), reducing(ring, ReduceType::int64), "allreduce (sum of 10 float64)",
       "allreduce (sum of 10 int64)"},
      {reducing(ring), reducing(ring, ReduceType::float32, ReduceOp::min), sum, "allreduce (min of 10 float32)"},
      {reducing(ring), reducing(ring, ReduceType::float32, ReduceOp::sum, kLength + 1), sum, "allreduce (sum of 11 float32)"},
      // Shape, sum or average, and type in the words of the caller.
      {with_words("sum of float32 (2, 5)"), with_words("sum of float32 (5, 2)"), "allreduce (sum of float32 (2, 5))",
       "allreduce (sum of float32 (5, 2))"},
      {with_words("sum of float32 (10,)"), with_words("average of float32 (10,)"), "allreduce (sum of float32 (10,))",
       "allreduce (average of float32 (10,))"},
      {broadcasting(0, "float32 (10,) from rank 0"), broadcasting(0, "int32 (10,) from rank 0"),
       "broadcast (float32 (10,) from rank 0)", "broadcast (int32 (10,) from rank 0)"},
      // Algorithm, wire format and segments.
      {reducing(ring), reducing({.algorithm = "rabenseifner"}), "allreduce (sum of 10 float32, ring)",
       "allreduce (sum of 10 float32, rabenseifner)"},
      {reducing(ring), reducing({.algorithm = "ring", .wire = comm::Wire::bf16}),
       "allreduce (sum of 10 float32, sent as native)", "allreduce (sum of 10 float32, sent as bf16)"},
      {reducing(ring), reducing({.algorithm = "ring", .segment_bytes = 64}),
       "allreduce (sum of 10 float32, in segments of 262144 bytes)", "allreduce (sum of 10 float32, in segments of 64 bytes)"},
      // Root, and the collective itself.
      {broadcasting(0), broadcasting(1), "broadcast (40 bytes from rank 0)", "broadcast (40 bytes from rank 1)"},
      {reducing(ring), broadcasting(0), sum, "broadcast (40 bytes from rank 0)"},
      {[](Communicator& comm, Arrays&) { return comm::start_barrier(comm); }, start_allgather, "barrier",
       "allgather (40 bytes)"},
      {start_reduce_scatter, reducing(ring), "reduce_scatter (sum of 10 float32)", sum},
      {start_sum_like_lengths, start_lengths,
       str_cat("allreduce (sum of ", std::min<std::int64_t>(kLength, ranks + 1), " int64)"), "allgather (of any lengths)"},
  };
  if (has_library_allreduce) {
    all.push_back({reducing(ring), reducing({.algorithm = "mpi"}), "allreduce (sum of 10 float32, ring)",
                   "allreduce (sum of 10 float32, mpi)"});
  }
  return all;
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += str_cat(i == 0 ? "" : ", ", ranks[i]);
    if (end - i > 3) text += str_cat("-", ranks[(i = end - 1)]);
  }
  return text;
}

/// Return the message that all ranks must throw. `called` has the call of each rank.
std::string expected_line(std::int64_t number, const std::vector<std::string>& called) {
  std::map<std::string, std::vector<int>> groups;
  std::vector<std::string> order;
  for (std::size_t rank = 0; rank < called.size(); ++rank) {
    if (groups[called[rank]].empty()) order.push_back(called[rank]);
    groups[called[rank]].push_back(static_cast<int>(rank));
  }
  std::string line = str_cat("collective ", number, " differs between ranks: ");
  for (std::size_t i = 0; i < order.size(); ++i)
    line += str_cat(i == 0 ? "" : "; ", list(groups[order[i]]), " called ", order[i]);
  return line;
}

/// Completes an operation, and expects that it fails with this message.
template <class Complete>
void expect_agreed_error(Complete&& complete, const std::string& line, ErrorCode code = ErrorCode::communication) {
  try {
    complete();
    ADD_FAILURE() << "no error, expected: " << line;
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.what(), line);
    EXPECT_EQ(error.code(), code);
  }
}

void expect_usable(Communicator& comm) {
  std::vector<double> ranks(97, comm.rank());
  comm::allreduce(comm, std::span(ranks), ReduceOp::sum, "ring");
  ASSERT_EQ(ranks, std::vector<double>(97, comm.size() * (comm.size() - 1) / 2));
}

}  // namespace

void check_disagreements(Communicator& comm, bool has_library_allreduce) {
  const int size = comm.size();
  if (size == 1) return;
  const int repetitions = size <= 4 ? 50 : 10;
  for (const Case& one : cases(has_library_allreduce, size)) {
    const auto group = comm.split(0, comm.rank());
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      // Either one rank differs, each rank in turn, or every second rank differs.
      const bool alternate = repetition % 2 == 1;
      const auto is_odd = [&](int rank) { return alternate ? rank % 2 == 1 : rank == repetition / 2 % size; };
      std::vector<std::string> called;
      for (int rank = 0; rank < size; ++rank) called.push_back(is_odd(rank) ? one.odd_text : one.usual_text);
      Arrays arrays(comm.rank());
      const auto run = [&] { (is_odd(comm.rank()) ? one.odd : one.usual)(*group, arrays).wait(); };
      expect_agreed_error(run, expected_line(2 * repetition, called));
      ASSERT_EQ(arrays, Arrays(comm.rank())) << one.odd_text;
      expect_usable(*group);
    }
    EXPECT_TRUE(group->pending().empty());
  }
  comm.barrier();
}

void check_disagreements_in_flight(Communicator& comm) {
  const int size = comm.size();
  if (size == 1) return;
  const auto group = comm.split(0, comm.rank());
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  const bool odd = comm.rank() % 2 == 1;
  const auto called = [&](const std::string& even_text, const std::string& odd_text) {
    std::vector<std::string> texts;
    for (int rank = 0; rank < size; ++rank) texts.push_back(rank % 2 == 1 ? odd_text : even_text);
    return texts;
  };
  constexpr int kOperations = 6;
  for (int round = 0; round < 25; ++round) {
    // On odd ranks, operations 1 and 2 are exchanged, and operation 4 has another root. Operations 0, 3 and 5 are equal.
    const std::int64_t first = round * (kOperations + 1);
    std::vector<Arrays> arrays(kOperations, Arrays(comm.rank()));
    const auto sum = reducing({.algorithm = "rabenseifner", .segment_bytes = 64});
    const auto least = reducing({.algorithm = "ring"}, ReduceType::float64, ReduceOp::min);
    const std::vector<Start> starts = {sum, odd ? least : sum, odd ? sum : least, least, broadcasting(odd ? 1 : 0), sum};
    std::vector<Operation> operations;
    for (std::size_t i = 0; i < kOperations; ++i) operations.push_back(starts[i](*group, arrays[i]));
    std::vector<std::size_t> order(kOperations);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::shuffle(order, random);
    const std::map<std::size_t, std::string> lines = {
        {1, expected_line(first + 1, called("allreduce (sum of 10 float32, rabenseifner, in segments of 64 bytes)",
                                            "allreduce (min of 10 float64, ring, in segments of 262144 bytes)"))},
        {2, expected_line(first + 2, called("allreduce (min of 10 float64, ring, in segments of 262144 bytes)",
                                            "allreduce (sum of 10 float32, rabenseifner, in segments of 64 bytes)"))},
        {4, expected_line(first + 4, called("broadcast (40 bytes from rank 0)", "broadcast (40 bytes from rank 1)"))}};
    for (const std::size_t i : order) {
      if (!lines.contains(i)) {
        operations[i].wait();
        continue;
      }
      const auto test = [&] {
        while (!operations[i].test()) {
        }
      };
      if (random() % 2 == 0) expect_agreed_error(test, lines.at(i));
      expect_agreed_error([&] { operations[i].wait(); }, lines.at(i));  // throws again in every call
      EXPECT_EQ(arrays[i], Arrays(comm.rank()));
    }
    for (const std::size_t i : {0U, 5U}) {
      std::vector<float> total = arrays[i].floats;
      total.pop_back();
      expect_reduced<float>(comm, total, ReduceOp::sum, "beside operations that failed");
    }
    expect_reduced<double>(comm, arrays[3].doubles, ReduceOp::min, "beside operations that failed");
    expect_usable(*group);
  }
  comm.barrier();
}

void check_groups(Communicator& comm) {
  const int size = comm.size();
  const auto group = comm.split(0, comm.rank());
  const Start sum = reducing({.algorithm = "rabenseifner", .segment_bytes = 16});
  const Start least = reducing({.algorithm = "ring"}, ReduceType::float64, ReduceOp::min);
  const auto start_all = [&](const std::vector<Start>& starts, Arrays& arrays, std::string_view words) {
    comm::OperationGroup together(*group);
    std::vector<Operation> operations;
    for (const Start& start : starts) operations.push_back(start(*group, arrays));
    together.start(words);
    return operations;
  };
  {  // services that run while the group is open are not members
    const auto fresh = comm.split(0, comm.rank());
    Arrays arrays(comm.rank());
    comm::OperationGroup together(*fresh);
    auto one = least(*fresh, arrays);
    auto another = reducing({.algorithm = "two_level"})(*fresh, arrays);
    together.start();
    another.wait();
    one.wait();
    arrays.floats.pop_back();
    expect_reduced<float>(comm, arrays.floats, ReduceOp::sum, "behind a service");
  }
  std::int64_t number = 0;
  for (int repetition = 0; repetition < 20; ++repetition) {
    Arrays arrays(comm.rank());
    auto operations = start_all({least, sum}, arrays, "two");
    auto behind = comm::start_barrier(*group);
    operations[1].wait();
    operations[0].wait();
    EXPECT_EQ(operations[1].contributors(), size);
    behind.wait();
    arrays.floats.pop_back();
    expect_reduced<float>(comm, arrays.floats, ReduceOp::sum, "part of a group");
    expect_reduced<double>(comm, arrays.doubles, ReduceOp::min, "part of a group");
    number += 2;
    if (size == 1) continue;
    // Most ranks start a group of two collectives. One rank starts one, three or other collectives, or drops its group.
    const bool odd = comm.rank() == repetition % size;
    const std::vector<std::vector<Start>> others = {{least}, {least, sum, sum}, {sum, least}, {}};
    const std::vector<std::string> texts = {"allreduce (other)", "group (other)", "group (other)", "barrier"};
    const auto which = static_cast<std::size_t>(repetition) % others.size();
    std::vector<std::string> called(static_cast<std::size_t>(size), "group (two)");
    called[static_cast<std::size_t>(repetition % size)] = texts[which];
    const std::string line = expected_line(number, called);
    arrays = Arrays(comm.rank());
    if (odd && others[which].empty()) {
      {
        const comm::OperationGroup given_up(*group);
        const Operation one = sum(*group, arrays);
        const Operation another = least(*group, arrays);
      }
      expect_agreed_error([&] { group->barrier(); }, line);
    } else {
      operations = start_all(odd ? others[which] : std::vector<Start>{least, sum}, arrays, odd ? "other" : "two");
      for (Operation& operation : operations) expect_agreed_error([&] { operation.wait(); }, line);
    }
    EXPECT_EQ(arrays, Arrays(comm.rank()));
    expect_usable(*group);
    number += 2;
  }
  comm.barrier();
}

void check_disagreements_with_joined(Communicator& comm, bool has_library_allreduce) {
  const int size = comm.size();
  const auto group = comm.split(0, comm.rank());
  if (size == 1) return;
  const auto joins = [&] { static_cast<void>(comm::join(*group)); };
  std::int64_t number = 0;
  // A collective that needs values of the joined rank fails on all ranks.
  for (int joined = 0; joined < size; ++joined) {
    const std::string needs = str_cat(", needs values of rank ", joined, ", which has joined");
    const std::vector<std::pair<Start, std::string>> calls = {
        {start_allgather, "allgather (40 bytes)"},
        {start_lengths, "allgather (of any lengths)"},
        {start_reduce_scatter, "reduce_scatter (sum of 10 float32 in segments of 262144 bytes)"},
        {broadcasting(joined), str_cat("broadcast (40 bytes from rank ", joined, ")")}};
    for (const auto& [start, text] : calls) {
      Arrays arrays(comm.rank());
      const auto run = [&] {
        if (comm.rank() == joined) joins();
        if (comm.rank() != joined) start(*group, arrays).wait();
      };
      expect_agreed_error(run, str_cat("collective ", number, ", ", text, needs), ErrorCode::unsupported);
      EXPECT_EQ(arrays, Arrays(comm.rank()));
      expect_usable(*group);
      number += 2;
    }
  }
  // A group of allreduces works with a joined rank. A group with another collective fails.
  const std::vector<Start> sums = {reducing({.algorithm = "ring"}),
                                   reducing({.algorithm = "rabenseifner"}, ReduceType::float64, ReduceOp::min)};
  const auto group_of = [&](const std::vector<Start>& starts, Arrays& arrays) {
    comm::OperationGroup together(*group);
    std::vector<Operation> operations;
    for (const Start& start : starts) operations.push_back(start(*group, arrays));
    together.start();
    for (Operation& operation : operations) operation.wait();
    EXPECT_EQ(operations.front().contributors(), size - 1);
  };
  Arrays reduced(comm.rank());
  if (comm.rank() != 0) group_of(sums, reduced);
  const auto mixed = [&] {
    Arrays arrays(comm.rank());
    if (comm.rank() == 0) return joins();
    group_of({sums[0], broadcasting(1)}, arrays);
  };
  if (comm.rank() != 0) {
    double least = value<double>(1, 0);
    for (int rank = 2; rank < size; ++rank) least = std::min(least, value<double>(rank, 0));
    EXPECT_EQ(reduced.doubles[0], least);
  }
  expect_agreed_error(mixed,
                      str_cat("collective ", number + 1, ", group (2 collectives), needs values of rank 0, which has joined"),
                      ErrorCode::unsupported);
  expect_usable(*group);
  number += 3;
  // Ranks differ while another rank has joined.
  for (int repetition = 0; size > 2 && repetition < 50; ++repetition) {
    const std::vector<Case> all = cases(has_library_allreduce, size);
    const Case& one = all[static_cast<std::size_t>(repetition) % all.size()];
    const int joined = repetition % size;
    const int odd = (joined + 1) % size;
    std::vector<std::string> called(static_cast<std::size_t>(size), one.usual_text);
    called[static_cast<std::size_t>(joined)] = "join";
    called[static_cast<std::size_t>(odd)] = one.odd_text;
    Arrays arrays(comm.rank());
    const auto run = [&] {
      if (comm.rank() == joined) return joins();
      reducing({.algorithm = "ring"})(*group, arrays).wait();  // the joined rank takes part in this collective
      arrays = Arrays(comm.rank());
      (comm.rank() == odd ? one.odd : one.usual)(*group, arrays).wait();
    };
    expect_agreed_error(run, expected_line(number + 1, called));
    EXPECT_EQ(arrays, Arrays(comm.rank()));
    expect_usable(*group);
    number += 3;
  }
  EXPECT_EQ(comm::join(*group), size - 1);
  comm.barrier();
}

}  // namespace floodtide::test
