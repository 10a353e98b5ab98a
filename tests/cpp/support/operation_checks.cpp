// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <random>
#include <thread>

#include "support/collective_checks.hpp"
#include "support/collective_values.hpp"

namespace floodtide::test {

using comm::Communicator;
using comm::ReduceOp;

void check_concurrent_operations(Communicator& comm, bool has_library_allreduce) {
  std::vector<std::string_view> algorithms;
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (runs_on(row, comm, has_library_allreduce)) algorithms.push_back(row.name);
  }
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  for (int round = 0; round < 5; ++round) {
    std::vector<std::vector<float>> arrays;
    for (std::size_t i = 0; i < 12; ++i)
      arrays.push_back(values_of<float>(comm.rank(), static_cast<std::int64_t>(1 + 317 * i)));
    std::vector<double> from_root(1009, comm.rank());
    std::vector<comm::Operation> operations;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      operations.push_back(comm::start_allreduce(
          comm, buffer_of(arrays[i]), ReduceOp::sum,
          {.algorithm = algorithms[i % algorithms.size()], .segment_bytes = i % 2 == 0 ? 1024 : comm::kDefaultSegmentBytes}));
      if (i == 5) {
        operations.push_back(comm::start_barrier(comm));
        operations.push_back(comm::start_broadcast(comm, std::as_writable_bytes(std::span(from_root)), comm.size() - 1));
      }
    }
    std::ranges::shuffle(operations, random);
    for (comm::Operation& operation : operations) {
      if (random() % 2 == 0) {
        operation.wait();
      } else {
        while (!operation.test()) std::this_thread::yield();
      }
      EXPECT_TRUE(operation.test());
    }
    for (const auto& array : arrays) expect_reduced<float>(comm, array, ReduceOp::sum, "one of many operations");
    EXPECT_EQ(from_root, std::vector<double>(1009, comm.size() - 1));
    EXPECT_TRUE(comm.pending().empty());
  }
}

void check_reduce_scatter(Communicator& comm) {
  const int size = comm.size();
  for (const std::int64_t length : {0, 1, 97, 1009}) {
    std::vector<std::vector<std::int64_t>> cuts = {comm::even_blocks(length, size)};
    cuts.emplace_back(static_cast<std::size_t>(size) + 1, length);  // the whole array is the block of rank 0
    cuts.back()[0] = 0;
    for (const auto& blocks : cuts) {
      std::vector<double> values = values_of<double>(comm.rank(), length);
      const comm::ReduceBuffer buffer{std::as_writable_bytes(std::span(values)).data(), length, comm::ReduceType::float64};
      comm::reduce_scatter(comm, buffer, ReduceOp::sum, blocks);
      const auto rank = static_cast<std::size_t>(comm.rank());
      for (std::int64_t i = blocks[rank]; i < blocks[rank + 1]; ++i) {
        double expected = value<double>((comm.rank() + 1) % size, i);  // summed in the documented order
        for (int step = 2; step <= size; ++step) expected += value<double>((comm.rank() + step) % size, i);
        if (size == 1) expected = value<double>(0, i);
        ASSERT_EQ(values[static_cast<std::size_t>(i)], expected);
      }
    }
  }
  std::vector<float> values(4);
  const std::vector<std::int64_t> wrong(static_cast<std::size_t>(size) + 1, 1);
  EXPECT_THROW(comm::reduce_scatter(comm, buffer_of(values), ReduceOp::sum, wrong), Error);
  EXPECT_THROW(comm::reduce_scatter(comm, buffer_of(values), ReduceOp::sum, std::span(wrong).first(1)), Error);
}

void check_join(Communicator& comm) {
  const int size = comm.size();
  for (int shift = 0; shift < size; ++shift) {
    const auto calls_of = [&](int rank) { return 3 * ((rank + shift) % size); };
    for (int call = 0; call < calls_of(comm.rank()); ++call) {
      std::vector<double> sum = values_of<double>(comm.rank(), 97 + call);
      std::vector<std::int64_t> least = {comm.rank()};
      auto in_flight =
          comm::start_allreduce(comm, {std::as_writable_bytes(std::span(sum)).data(), 97 + call, comm::ReduceType::float64},
                                ReduceOp::sum, {.algorithm = call % 2 == 0 ? "ring" : "rabenseifner"});
      comm::allreduce(comm, std::span(least), ReduceOp::min);
      in_flight.wait();
      if (call == 1) comm.barrier();
      double expected = 0;
      double magnitude = 0;
      std::int64_t expected_least = size;
      for (int rank = 0; rank < size; ++rank) {
        if (calls_of(rank) <= call) continue;
        expected += value<double>(rank, 5);
        magnitude += std::abs(value<double>(rank, 5));
        expected_least = std::min<std::int64_t>(expected_least, rank);
      }
      ASSERT_LE(std::abs(sum[5] - expected), size * std::numeric_limits<double>::epsilon() * magnitude);
      ASSERT_EQ(least[0], expected_least);
    }
    EXPECT_EQ(comm::join(comm), (2 * size - 1 - shift) % size);  // the rank with the most calls joins last
  }
  EXPECT_EQ(comm::join(comm), size - 1);  // all ranks join at the same time
  comm.barrier();
}

void check_waiting_is_cheap(Communicator& comm) {
  constexpr int kLateMs = 300;
  const auto cpu_seconds = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double least_s = 1;  // smallest of three times, because on a busy machine waking up can take several times longer
  for (int attempt = 0; attempt < 3; ++attempt) {
    comm.barrier();
    const double start_s = cpu_seconds();
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(kLateMs));
    std::vector<float> values(1000, 1.0F);
    comm::allreduce(comm, std::span(values), ReduceOp::sum);
    least_s = std::min(least_s, cpu_seconds() - start_s);
  }
  // 5 % of the wait, and the first millisecond without sleeps.
  if (comm.rank() != 0) {
    EXPECT_LT(least_s, 0.05 * 1e-3 * kLateMs + 1e-3);
  }
}

}  // namespace floodtide::test
