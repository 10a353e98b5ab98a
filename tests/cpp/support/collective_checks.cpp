// SPDX-License-Identifier: Apache-2.0
#include "support/collective_checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <ctime>
#include <initializer_list>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "floodtide/comm/collectives.hpp"

namespace floodtide::test {
namespace {

using comm::Communicator;
using comm::ReduceOp;

constexpr std::int64_t kFfnParameters = 472353;  // of the published network (depth 9, 32 features)
constexpr std::size_t kSmallSegmentBytes = 64;   // so that short arrays travel in many segments

/// The value of element i on a rank: known to all ranks, so that each can compute what must come out.
template <class T>
T value(int rank, std::int64_t i) {
  const auto bits =
      (static_cast<std::uint64_t>(i) * 2654435761U + static_cast<std::uint64_t>(rank) * 40503U) * 0x9E3779B97F4A7C15U;
  const auto small = static_cast<std::int64_t>(bits >> 40U) - (1 << 23);  // 24 bits, signed
  if constexpr (std::is_integral_v<T>) return small;
  return static_cast<T>(small) / T{1000};
}

template <class T>
void expect_reduced(const Communicator& comm, std::span<const T> values, ReduceOp op, const std::string& what) {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
    long double sum = 0;
    long double magnitude = 0;
    T smallest = std::numeric_limits<T>::max();
    T largest = std::numeric_limits<T>::lowest();
    for (int rank = 0; rank < comm.size(); ++rank) {
      const T x = value<T>(rank, i);
      sum += static_cast<long double>(x);
      magnitude += std::abs(static_cast<long double>(x));
      smallest = std::min(smallest, x);
      largest = std::max(largest, x);
    }
    const T got = values[static_cast<std::size_t>(i)];
    if (op == ReduceOp::sum) {
      // Each of the N - 1 additions rounds by at most eps / 2 of a partial sum, which is at most `magnitude` (1 + eps)^N.
      const long double bound =
          std::is_integral_v<T> ? 0.0L
                                : (comm.size() - 1) * static_cast<long double>(std::numeric_limits<T>::epsilon()) * magnitude;
      ASSERT_LE(std::abs(static_cast<long double>(got) - sum), bound) << what << ", element " << i;
    } else {
      ASSERT_EQ(got, op == ReduceOp::min ? smallest : largest) << what << ", element " << i;
    }
  }
}

template <class T>
void expect_same_bits_everywhere(Communicator& comm, std::span<const T> values, const std::string& what) {
  const auto bytes = std::as_bytes(values);
  std::uint64_t hash = 14695981039346656037U;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211U;
  const auto all = comm::allgather(comm, std::as_bytes(std::span(&hash, 1)));
  for (const auto& other : all) ASSERT_EQ(other, all.front()) << what;
}

template <class T>
std::vector<T> values_of(int rank, std::int64_t length) {
  std::vector<T> values(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) values[static_cast<std::size_t>(i)] = value<T>(rank, i);
  return values;
}

bool runs_on(const comm::AllreduceRow& row, const Communicator& comm, bool has_library_allreduce) {
  return row.schedule != nullptr || has_library_allreduce || comm.size() == 1;
}

template <class T>
void check_allreduce_of(Communicator& comm, bool has_library_allreduce, std::int64_t length, std::size_t segment_bytes,
                        std::initializer_list<ReduceOp> ops = {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (!runs_on(row, comm, has_library_allreduce)) continue;
    for (const ReduceOp op : ops) {
      const std::string what =
          str_cat(row.name, " ", comm::name(op), " of ", length, " x ", sizeof(T), " bytes on ", comm.size(), " ranks");
      std::vector<T> values = values_of<T>(comm.rank(), length);
      comm::allreduce(comm, std::span(values), op, row.name, segment_bytes);
      expect_reduced<T>(comm, values, op, what);
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

comm::ReduceBuffer buffer_of(std::span<float> values) {
  return {std::as_writable_bytes(values).data(), static_cast<std::int64_t>(values.size()), comm::ElementType::float32};
}

/// Roundings to bf16 that a value can pass on its way into the result.
int roundings(std::string_view algorithm, int ranks) {
  const int rounds = std::bit_width(static_cast<unsigned>(ranks)) - 1;
  if (algorithm == "ring") return ranks;
  return rounds + 3;  // with the exchange of pairs or within nodes, and the rounding of the result
}

void check_narrow_wire_of(Communicator& comm, const comm::AllreduceRow& row, std::int64_t length, ReduceOp op) {
  const std::string what = str_cat(row.name, " ", comm::name(op), " of ", length, " as bf16 on ", comm.size(), " ranks");
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

void sleep_ms(int count) { std::this_thread::sleep_for(std::chrono::milliseconds(count)); }

/// What a call throws; a failure if nothing.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace

void check_allreduce(Communicator& comm, bool has_library_allreduce) {
  const std::int64_t p = comm.size();
  for (const std::int64_t length : std::set<std::int64_t>{0, 1, 2, 3, p - 1, p, p + 1, 97, 1009}) {
    check_allreduce_of<float>(comm, has_library_allreduce, length, kSmallSegmentBytes);
    check_allreduce_of<double>(comm, has_library_allreduce, length, kSmallSegmentBytes);
    check_allreduce_of<std::int64_t>(comm, has_library_allreduce, length, kSmallSegmentBytes);
  }
  check_allreduce_of<float>(comm, has_library_allreduce, kFfnParameters, comm::kDefaultSegmentBytes, {ReduceOp::sum});
  for (const std::size_t segment_bytes : {std::size_t{0}, std::numeric_limits<std::size_t>::max()}) {
    check_allreduce_of<double>(comm, has_library_allreduce, 97, segment_bytes, {ReduceOp::sum});
  }
  check_whole_numbers(comm, has_library_allreduce);
}

void check_long_allreduce(Communicator& comm, bool has_library_allreduce, std::int64_t length) {
  check_allreduce_of<float>(comm, has_library_allreduce, length, comm::kDefaultSegmentBytes, {ReduceOp::sum});
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
  const comm::ReduceBuffer doubles{std::as_writable_bytes(std::span(values)).data(), 3, comm::ElementType::float64};
  EXPECT_THROW(comm::allreduce(comm, doubles, ReduceOp::sum, {.wire = comm::Wire::bf16}), Error);
  std::vector<float> floats(3);
  EXPECT_THROW(comm::allreduce(comm, buffer_of(floats), ReduceOp::sum, {.algorithm = "mpi", .wire = comm::Wire::bf16}), Error);
}

void check_traffic(Communicator& comm) {
  const comm::Place place{comm.rank(), comm.size(), comm.nodes()};
  for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
    if (row.schedule == nullptr) continue;
    for (const std::int64_t length : {0, 1, 5, 1009}) {
      const comm::ScheduleCost cost =
          comm::cost(comm::allreduce_schedule(row.name, place, length), sizeof(float), kSmallSegmentBytes / sizeof(float));
      std::vector<float> values(static_cast<std::size_t>(length), 1.0F);
      const comm::Traffic before = comm.traffic();
      comm::allreduce(comm, std::span(values), ReduceOp::sum, row.name, kSmallSegmentBytes);
      const comm::Traffic after = comm.traffic();
      EXPECT_EQ(after.messages - before.messages, cost.messages) << row.name << " of " << length;
      EXPECT_EQ(after.bytes - before.bytes, cost.bytes) << row.name << " of " << length;
      EXPECT_EQ(after.notices - before.notices, comm.size() > 1 ? 1 : 0);
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
    cuts.emplace_back(static_cast<std::size_t>(size) + 1, length);  // all for rank 0
    cuts.back()[0] = 0;
    for (const auto& blocks : cuts) {
      std::vector<double> values = values_of<double>(comm.rank(), length);
      const comm::ReduceBuffer buffer{std::as_writable_bytes(std::span(values)).data(), length, comm::ElementType::float64};
      comm::reduce_scatter(comm, buffer, ReduceOp::sum, blocks);
      const auto rank = static_cast<std::size_t>(comm.rank());
      for (std::int64_t i = blocks[rank]; i < blocks[rank + 1]; ++i) {
        double expected = value<double>((comm.rank() + 1) % size, i);  // in the documented order
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

void check_mismatches(Communicator& comm) {
  if (comm.size() == 1) return;
  const std::string previous = str_cat("on rank ", (comm.rank() + comm.size() - 1) % comm.size());
  {
    const auto group = comm.split(0, comm.rank());
    std::vector<float> values(static_cast<std::size_t>(1000 + comm.rank()));  // no two neighbours agree
    const auto call = [&] { comm::allreduce(*group, std::span(values), ReduceOp::sum, "ring"); };
    const std::string message = error_of(call);
    EXPECT_NE(message.find(str_cat("rank ", comm.rank(), ": collective 0 is allreduce (ring, sum of ", 1000 + comm.rank())),
              std::string::npos)
        << message;
    EXPECT_NE(message.find(previous), std::string::npos) << message;
    EXPECT_EQ(error_of(call), message);  // what failed once cannot be used again
    comm.barrier();
  }
  if (comm.size() % 2 != 0) return;
  const auto group = comm.split(0, comm.rank());
  std::vector<float> values(10);
  const std::string message = error_of([&] {
    if (comm.rank() % 2 == 0) group->barrier();
    if (comm.rank() % 2 == 1) comm::broadcast(*group, std::as_writable_bytes(std::span(values)), 0);
  });
  EXPECT_NE(message.find("barrier"), std::string::npos) << message;
  EXPECT_NE(message.find("broadcast (40 bytes from rank 0)"), std::string::npos) << message;
  EXPECT_NE(message.find(previous), std::string::npos) << message;
  comm.barrier();
}

void check_join(Communicator& comm) {
  const int size = comm.size();
  for (int shift = 0; shift < size; ++shift) {
    const auto calls_of = [&](int rank) { return 3 * ((rank + shift) % size); };
    for (int call = 0; call < calls_of(comm.rank()); ++call) {
      std::vector<double> sum = values_of<double>(comm.rank(), 97 + call);
      std::vector<std::int64_t> least = {comm.rank()};
      auto in_flight =
          comm::start_allreduce(comm, {std::as_writable_bytes(std::span(sum)).data(), 97 + call, comm::ElementType::float64},
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
    EXPECT_EQ(comm::join(comm), (2 * size - 1 - shift) % size);  // the rank with most calls
  }
  EXPECT_EQ(comm::join(comm), size - 1);  // all at once
  comm.barrier();
}

void check_measured_table(Communicator& comm) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<float> values = values_of<float>(comm.rank(), 1009);
  comm::allreduce(comm, std::span(values), ReduceOp::sum, comm::kAutoAllreduce);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  expect_reduced<float>(comm, values, ReduceOp::sum, "auto");
  const std::string text = comm::allreduce_table(comm).text();
  const auto all = comm::allgather(comm, std::as_bytes(std::span(text)));
  for (const auto& other : all) EXPECT_EQ(other, all.front());
  EXPECT_EQ(comm::AllreduceTable::parse(text).text(), text);
}

void check_waiting_is_cheap(Communicator& comm) {
  constexpr int kLateMs = 300;
  const auto cpu_seconds = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double least_s = 1;  // of three: on a busy machine waking up can cost several times as much
  for (int attempt = 0; attempt < 3; ++attempt) {
    comm.barrier();
    const double start_s = cpu_seconds();
    if (comm.rank() == 0) sleep_ms(kLateMs);
    std::vector<float> values(1000, 1.0F);
    comm::allreduce(comm, std::span(values), ReduceOp::sum);
    least_s = std::min(least_s, cpu_seconds() - start_s);
  }
  // 5 % of the wait, and the first millisecond of looking closely.
  if (comm.rank() != 0) {
    EXPECT_LT(least_s, 0.05 * 1e-3 * kLateMs + 1e-3);
  }
}

void check_messages(Communicator& comm) {
  constexpr int kMessages = 5;
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  std::array<std::int64_t, kMessages> sent{};
  std::array<std::int64_t, kMessages> got{};
  std::array<std::int64_t, kMessages> got_of_other_tag{};
  std::vector<std::unique_ptr<comm::Request>> requests;
  for (std::size_t i = 0; i < kMessages; ++i) {
    requests.push_back(comm.receive(previous, 1, std::as_writable_bytes(std::span(&got_of_other_tag[i], 1))));
    requests.push_back(comm.receive(previous, 0, std::as_writable_bytes(std::span(&got[i], 1))));
  }
  for (std::size_t i = 0; i < kMessages; ++i) {
    sent[i] = 100 * comm.rank() + static_cast<std::int64_t>(i);
    requests.push_back(comm.send(next, 0, std::as_bytes(std::span(&sent[i], 1))));
    requests.push_back(comm.send(next, 1, std::as_bytes(std::span(&sent[i], 1))));
  }
  requests.push_back(comm.receive(previous, 2, {}));
  requests.push_back(comm.send(next, 2, {}));
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) (*request)->wait();
  for (const auto& request : requests) EXPECT_TRUE(request->test());
  for (std::size_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(got[i], 100 * previous + static_cast<std::int64_t>(i));
    EXPECT_EQ(got_of_other_tag[i], got[i]);
  }
}

void check_broadcast(Communicator& comm) {
  for (int root = 0; root < comm.size(); ++root) {
    for (const std::int64_t length : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1009}, kFfnParameters}) {
      std::vector<double> values(static_cast<std::size_t>(length));
      for (std::int64_t i = 0; i < length; ++i) values[static_cast<std::size_t>(i)] = value<double>(comm.rank(), i);
      comm::broadcast(comm, std::as_writable_bytes(std::span(values)), root);
      for (std::int64_t i = 0; i < length; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], value<double>(root, i));
    }
  }
}

void check_allgather(Communicator& comm) {
  const auto length_of = [](int rank) { return static_cast<std::size_t>(rank % 3 == 1 ? 0 : 1 + 700 * rank); };
  const std::vector<std::byte> own(length_of(comm.rank()), static_cast<std::byte>(comm.rank() + 1));
  const auto all = comm::allgather(comm, own);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    EXPECT_EQ(all[static_cast<std::size_t>(rank)], std::vector(length_of(rank), static_cast<std::byte>(rank + 1)));
  }
}

void check_barrier(Communicator& comm) {
  using Clock = std::chrono::steady_clock;  // one clock for all ranks of a machine
  if (comm.rank() == comm.size() - 1) sleep_ms(60);
  std::array<std::int64_t, 1> last_entry = {Clock::now().time_since_epoch().count()};
  comm.barrier();
  const std::int64_t leave = Clock::now().time_since_epoch().count();
  comm::allreduce(comm, std::span<std::int64_t>(last_entry), ReduceOp::max);
  EXPECT_GE(leave, last_entry[0]);
}

void check_split(Communicator& comm) {
  const int color = comm.rank() % 2;
  const auto half = comm.split(color, -comm.rank());
  std::vector<std::byte> expected;  // the old ranks of my color, from the highest to the lowest
  for (int rank = comm.size() - 1; rank >= 0; --rank) {
    if (rank % 2 == color) expected.push_back(static_cast<std::byte>(rank));
  }
  ASSERT_EQ(half->size(), static_cast<int>(expected.size()));
  const auto own = static_cast<std::byte>(comm.rank());
  const auto members = comm::allgather(*half, std::span(&own, 1));
  for (std::size_t i = 0; i < members.size(); ++i) EXPECT_EQ(members[i].front(), expected[i]);
  comm.barrier();
}

void check_agree(Communicator& comm) {
  EXPECT_TRUE(comm::all_ok(comm, true));
  EXPECT_FALSE(comm::all_ok(comm, comm.rank() != comm.size() - 1));
  EXPECT_NO_THROW(comm::agree(comm, nullptr));
  const int first_failing = comm.size() / 2;
  std::exception_ptr failure;
  if (comm.rank() >= first_failing) {
    failure = std::make_exception_ptr(Error(ErrorCode::invalid_file, str_cat("file of rank ", comm.rank())));
  }
  try {
    comm::agree(comm, failure);
    ADD_FAILURE() << "agree did not throw";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.rank(), first_failing);
    EXPECT_EQ(error.code(), ErrorCode::invalid_file);
    EXPECT_EQ(error.what(), str_cat("file of rank ", first_failing));
  }
  failure = comm.rank() == 0 ? std::make_exception_ptr(std::runtime_error("not ours")) : nullptr;
  try {
    comm::agree(comm, failure);
    ADD_FAILURE() << "agree did not throw";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_STREQ(error.what(), "not ours");
  }
}

}  // namespace floodtide::test
