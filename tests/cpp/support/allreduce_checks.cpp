// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>

#include "support/collective_checks.hpp"
#include "support/collective_values.hpp"

namespace floodtide::test {
namespace {

using comm::Communicator;
using comm::ReduceOp;

template <class T>
void check_allreduce_of(Communicator& comm, bool has_library_allreduce, std::int64_t length, std::size_t segment_bytes,
                        std::initializer_list<ReduceOp> ops = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product},
                        Part part = Part::all) {
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (!runs_on(row, comm, has_library_allreduce)) continue;
    for (const ReduceOp op : ops) {
      const std::string what =
          str_cat(row.name, " ", name(op), " of ", length, " x ", sizeof(T), " bytes on ", comm.size(), " ranks");
      std::vector<T> values = values_of<T>(comm.rank(), length);
      comm::allreduce(comm, buffer_of(values), op, {.algorithm = row.name, .segment_bytes = segment_bytes});
      expect_reduced<T>(comm, values, op, what, part);
      expect_same_bits_everywhere<T>(comm, values, what);
    }
  }
}

void check_whole_numbers(Communicator& comm, bool has_library_allreduce) {
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (!runs_on(row, comm, has_library_allreduce)) continue;
    std::vector<float> values(1009);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - static_cast<float>(comm.rank());
    comm::allreduce(comm, std::span(values), ReduceOp::sum, row.name);
    const int size = comm.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], static_cast<float>(static_cast<int>(i) * size - size * (size - 1) / 2)) << row.name;
    }
  }
}

/// Return the largest number of roundings to bf16 between a value and the result.
int roundings(std::string_view algorithm, int ranks) {
  const int rounds = std::bit_width(static_cast<unsigned>(ranks)) - 1;
  if (algorithm == "ring") return ranks;
  return rounds + 3;  // includes the exchange in pairs or inside nodes, and the rounding of the result
}

void check_narrow_wire_of(Communicator& comm, const comm::AllreduceRow& row, std::int64_t length, ReduceOp op) {
  const std::string what = str_cat(row.name, " ", name(op), " of ", length, " as bf16 on ", comm.size(), " ranks");
  std::vector<float> values = values_of<float>(comm.rank(), length);
  const comm::AllreduceOptions options{.algorithm = row.name, .wire = comm::Wire::bf16, .segment_bytes = kSmallSegmentBytes};
  comm::start_allreduce(comm, buffer_of(values), op, options).wait();
  const double growth =
      std::pow(1 + std::ldexp(1.0, -8), roundings(row.name, comm.size())) * std::pow(1 + std::ldexp(1.0, -24), comm.size()) - 1;
  for (std::int64_t i = 0; i < length; ++i) {
    double exact = op == ReduceOp::sum ? 0 : value<float>(0, i);
    double magnitude = 0;
    for (int rank = 0; rank < comm.size(); ++rank) {
      const double x = value<float>(rank, i);
      exact = op == ReduceOp::sum ? exact + x : std::max(exact, x);
      magnitude += std::abs(x);
    }
    const double bound = comm.size() == 1 ? 0 : growth * (op == ReduceOp::sum ? magnitude : std::abs(exact));
    ASSERT_LE(std::abs(values[static_cast<std::size_t>(i)] - exact), bound) << what << ", element " << i;
  }
  expect_same_bits_everywhere<float>(comm, values, what);
}

comm::ReduceBuffer half_buffer(std::vector<std::uint16_t>& halves) {
  return {std::as_writable_bytes(std::span(halves)).data(), std::ssize(halves), comm::ReduceType::float16};
}

void check_half_allreduce_of(Communicator& comm, std::string_view algorithm, std::int64_t length, ReduceOp op) {
  const std::string what = str_cat(algorithm, " ", name(op), " of ", length, " float16 on ", comm.size(), " ranks");
  // Absolute values from 0.5 to 1.5 in steps of 2^-11 or 2^-10, with both signs, so that products neither overflow nor
  // underflow.
  const auto half_of = [](int rank, std::int64_t i) {
    const auto bits = static_cast<std::uint64_t>(i * 31 + 7 * rank + 1) * 0x9E3779B97F4A7C15U;
    return static_cast<std::uint16_t>((0x3800U + (bits >> 54U) % 0x600U) | (bits >> 20U & 0x8000U));
  };
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) halves[static_cast<std::size_t>(i)] = half_of(comm.rank(), i);
  comm::allreduce(comm, half_buffer(halves), op, {.algorithm = algorithm, .segment_bytes = kSmallSegmentBytes});
  for (std::int64_t i = 0; i < length; ++i) {
    double sum = 0;
    double product = 1;
    double magnitude = 0;
    double least = 2;
    double most = -2;
    for (int rank = 0; rank < comm.size(); ++rank) {
      const double x = half_value(half_of(rank, i));
      sum += x;
      magnitude += std::abs(x);
      product *= x;
      least = std::min(least, x);
      most = std::max(most, x);
    }
    const double got = half_value(halves[static_cast<std::size_t>(i)]);
    // Every operation rounds once to 11 bits, with a relative error of at most 2^-11, in any order of operations.
    const double growth = std::pow(1 + std::ldexp(1.0, -11), comm.size() - 1) - 1;
    const double exact = op == ReduceOp::sum       ? sum
                         : op == ReduceOp::product ? product  // at least 2^-8 on 8 ranks, so not subnormal
                         : op == ReduceOp::min     ? least
                                                   : most;
    const double bound = op == ReduceOp::sum ? growth * magnitude : op == ReduceOp::product ? growth * std::abs(product) : 0;
    ASSERT_LE(std::abs(got - exact), bound) << what << ", element " << i;
  }
  expect_same_bits_everywhere<std::uint16_t>(comm, halves, what);
}

}  // namespace

void check_allreduce(Communicator& comm, bool has_library_allreduce) {
  const std::int64_t p = comm.size();
  for (const std::int64_t length : std::set<std::int64_t>{0, 1, 2, 3, p - 1, p, p + 1, 97, 1009}) {
    check_allreduce_of<float>(comm, has_library_allreduce, length, kSmallSegmentBytes);
    check_allreduce_of<double>(comm, has_library_allreduce, length, kSmallSegmentBytes);
    check_allreduce_of<std::int64_t>(comm, has_library_allreduce, length, kSmallSegmentBytes);
  }
  for (const std::int64_t length : std::set<std::int64_t>{1, p + 1, 97}) {
    check_allreduce_of<std::int32_t>(comm, has_library_allreduce, length, kSmallSegmentBytes);
    check_allreduce_of<std::uint8_t>(comm, comm.size() == 1, length, kSmallSegmentBytes);  // `mpi` does not support 8-bit types
    check_allreduce_of<std::int8_t>(comm, comm.size() == 1, length, kSmallSegmentBytes);
  }
  check_allreduce_of<float>(comm, has_library_allreduce, kFfnParameters, comm::kDefaultSegmentBytes, {ReduceOp::sum});
  for (const std::size_t segment_bytes : {std::size_t{0}, std::numeric_limits<std::size_t>::max()}) {
    check_allreduce_of<double>(comm, has_library_allreduce, 97, segment_bytes, {ReduceOp::sum});
  }
  check_whole_numbers(comm, has_library_allreduce);
}

void check_half_allreduce(Communicator& comm, bool has_library_allreduce) {
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (row.schedule == nullptr) continue;
    for (const std::int64_t length : {0, 1, 97}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
        check_half_allreduce_of(comm, row.name, length, op);
      }
    }
  }
  if (!has_library_allreduce || comm.size() == 1) return;
  std::vector<std::uint16_t> halves(3);
  const std::string message =
      error_of([&] { comm::allreduce(comm, half_buffer(halves), ReduceOp::sum, {.algorithm = "mpi"}); });
  EXPECT_NE(message.find("MPI libraries have no float16 that all of them reduce alike"), std::string::npos) << message;
  comm.barrier();  // works, because every rank has thrown before a message was sent
}

void check_long_allreduce(Communicator& comm, bool has_library_allreduce) {
  const auto check = [&]<class T>(T, std::int64_t length) {
    check_allreduce_of<T>(comm, has_library_allreduce, length, comm::kDefaultSegmentBytes, {ReduceOp::sum}, Part::own);
  };
  check(float{}, 1300021);  // with 8 ranks each part has several segments
  check(double{}, 300007);
  check(std::int64_t{}, 300007);
}

void check_narrow_wire(Communicator& comm) {
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (row.schedule == nullptr) continue;
    for (const std::int64_t length : {0, 1, 2, 97, 1009}) {
      check_narrow_wire_of(comm, row, length, ReduceOp::sum);
      check_narrow_wire_of(comm, row, length, ReduceOp::max);
    }
    std::vector<float> values(1009, 1.0F);
    std::array<std::int64_t, 2> bytes{};
    for (const comm::Wire wire : {comm::Wire::native, comm::Wire::bf16}) {
      const std::int64_t before = comm.traffic().bytes;
      comm::allreduce(comm, buffer_of(values), ReduceOp::sum, {.algorithm = row.name, .wire = wire});
      bytes[wire == comm::Wire::bf16 ? 1 : 0] = comm.traffic().bytes - before;
    }
    EXPECT_EQ(bytes[0], 2 * bytes[1]) << row.name;
    EXPECT_EQ(bytes[0] > 0, comm.size() > 1) << row.name;
  }
  std::vector<double> values(3);
  const comm::ReduceBuffer doubles{std::as_writable_bytes(std::span(values)).data(), 3, comm::ReduceType::float64};
  EXPECT_THROW(comm::allreduce(comm, doubles, ReduceOp::sum, {.wire = comm::Wire::bf16}), Error);
  std::vector<float> floats(3);
  EXPECT_THROW(comm::allreduce(comm, buffer_of(floats), ReduceOp::sum, {.algorithm = "mpi", .wire = comm::Wire::bf16}), Error);
}

void check_traffic(Communicator& comm) {
  const comm::RankPlace place{comm.rank(), comm.size(), comm.nodes()};
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (row.schedule == nullptr) continue;
    for (const std::int64_t length : {0, 1, 5, 1009}) {
      constexpr auto kSegment = static_cast<std::int64_t>(kSmallSegmentBytes / sizeof(float));
      std::int64_t messages = 0, elements = 0;
      for (const comm::MessageStep& step : row.schedule(place, length).steps) {
        if (step.send_to == comm::kNobody) continue;
        messages += std::max<std::int64_t>(1, (step.sent.size() + kSegment - 1) / kSegment);
        elements += step.sent.size();
      }
      std::vector<float> values(static_cast<std::size_t>(length), 1.0F);
      const comm::Traffic before = comm.traffic();
      comm::allreduce(comm, std::span(values), ReduceOp::sum, row.name, kSmallSegmentBytes);
      const comm::Traffic after = comm.traffic();
      EXPECT_EQ(after.messages - before.messages, messages) << row.name << " of " << length;
      EXPECT_EQ(after.bytes - before.bytes, elements * static_cast<std::int64_t>(sizeof(float)))
          << row.name << " of " << length;
      const int rounds = std::bit_width(static_cast<unsigned>(comm.size() - 1));  // rounds of the agreement
      EXPECT_EQ(after.notices - before.notices, rounds);
    }
  }
}

void check_two_levels(Communicator& comm) {
  for (const int ranks_per_node : {1, 2, 3}) {
    comm.set_ranks_per_node(ranks_per_node);
    EXPECT_EQ(comm.nodes()[static_cast<std::size_t>(comm.rank())], comm.rank() / ranks_per_node);
    const auto nodes = comm.split(0, comm.rank());
    nodes->set_ranks_per_node(ranks_per_node);
    for (const std::int64_t length : {0, 1, 2, 97, 1009}) {
      std::vector<float> values = values_of<float>(comm.rank(), length);
      comm::allreduce(*nodes, std::span(values), ReduceOp::sum, "two_level", kSmallSegmentBytes);
      expect_reduced<float>(comm, values, ReduceOp::sum, str_cat("two_level with nodes of ", ranks_per_node));
      expect_same_bits_everywhere<float>(comm, values, str_cat("two_level with nodes of ", ranks_per_node));
    }
  }
  EXPECT_THROW(comm.set_ranks_per_node(0), Error);
}

}  // namespace floodtide::test
