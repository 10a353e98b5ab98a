// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "floodtide/comm/exchange.hpp"
#include "support/collective_checks.hpp"
#include "support/collective_values.hpp"

namespace floodtide::test {
namespace {

using comm::Communicator;
using comm::Exchange;
using comm::Items;

/// Return the number of items that one rank sends to another: no items for some pairs, and more than one message for one pair.
std::int64_t count_for(int from, int to, int size) {
  if ((from + 2 * to) % 3 == 0) return 0;
  return from == size - 1 && to == 0 ? 100000 : 1 + 37 * from + 5 * to;
}

std::byte byte_of(int from, int to, std::int64_t i) { return static_cast<std::byte>(17 * from + 5 * to + 3 * i); }

Items items_of(std::span<const std::byte> data, std::int64_t item_bytes) {
  const std::int64_t count = item_bytes == 0 ? 7 : std::ssize(data) / item_bytes;
  return {.data = data,
          .item_bytes = item_bytes,
          .count = count,
          .kind = str_cat(item_bytes, " bytes"),
          .description = str_cat(count, " items of ", item_bytes, " bytes"),
          .problem = {}};
}

/// Checks alltoall with its definition: block j of the items of rank i becomes block i of the result of rank j.
void check_alltoall(Communicator& comm, std::int64_t item_bytes) {
  const int rank = comm.rank();
  std::vector<std::byte> data;
  std::vector<std::int64_t> splits;
  for (int to = 0; to < comm.size(); ++to) {
    splits.push_back(count_for(rank, to, comm.size()));
    for (std::int64_t i = 0; i < splits.back() * item_bytes; ++i) data.push_back(byte_of(rank, to, i));
  }
  const std::int64_t bytes_before = comm.traffic().bytes;
  const std::int64_t messages_before = comm.traffic().messages;
  const auto out = std::make_shared<Exchange>();
  comm::start_alltoall(comm, items_of(data, item_bytes), splits, out).wait();
  out->require_done();
  std::vector<std::byte> expected;
  std::int64_t sent = 0;
  std::int64_t messages = comm.size() - 1;
  const auto segment = static_cast<std::int64_t>(comm::kDefaultSegmentBytes);
  for (int from = 0; from < comm.size(); ++from) {
    const std::int64_t count = count_for(from, rank, comm.size());
    EXPECT_EQ(out->counts()[static_cast<std::size_t>(from)], count);
    for (std::int64_t i = 0; i < count * item_bytes; ++i) expected.push_back(byte_of(from, rank, i));
    if (from == rank) continue;
    const std::int64_t to_there = count_for(rank, from, comm.size()) * item_bytes;
    sent += 256 + to_there;
    messages += (to_there + segment - 1) / segment;
  }
  ASSERT_TRUE(std::ranges::equal(out->data().span(), expected));
  // Expected traffic: a header and a block to every other rank, and no message for an empty block.
  EXPECT_EQ(comm.traffic().bytes - bytes_before, sent);
  EXPECT_EQ(comm.traffic().messages - messages_before, messages);
}

void check_gather(Communicator& comm, std::int64_t item_bytes) {
  const auto bytes_of = [&](int rank) { return static_cast<std::size_t>(count_for(rank, 0, comm.size()) * item_bytes); };
  std::vector<std::byte> own(bytes_of(comm.rank()));
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = byte_of(comm.rank(), 0, static_cast<std::int64_t>(i));
  const auto out = std::make_shared<Exchange>();
  comm::start_allgather(comm, items_of(own, item_bytes), out).wait();
  out->require_done();
  std::vector<std::byte> expected;
  for (int rank = 0; rank < comm.size(); ++rank) {
    for (std::size_t i = 0; i < bytes_of(rank); ++i) expected.push_back(byte_of(rank, 0, static_cast<std::int64_t>(i)));
    EXPECT_EQ(out->counts()[static_cast<std::size_t>(rank)], count_for(rank, 0, comm.size()));
  }
  ASSERT_TRUE(std::ranges::equal(out->data().span(), expected));
}

void check_items_without_bytes(Communicator& comm) {
  const auto out = std::make_shared<Exchange>();
  comm::start_allgather(comm, items_of({}, 0), out).wait();
  out->require_done();
  EXPECT_EQ(out->data().size(), 0);
  for (const std::int64_t count : out->counts()) EXPECT_EQ(count, 7);
}

void check_exchanges_in_flight(Communicator& comm) {
  constexpr std::size_t kExchanges = 40;
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  std::vector<std::vector<std::byte>> brought;
  std::vector<std::vector<float>> sums(kExchanges, std::vector<float>(1009, 1.0F));
  for (std::size_t i = 0; i < kExchanges; ++i) {
    brought.emplace_back((i * 97 + static_cast<std::size_t>(comm.rank()) * 31) % 211, static_cast<std::byte>(comm.rank() + i));
  }
  std::vector<std::shared_ptr<Exchange>> outs;
  std::vector<comm::Operation> operations;
  for (std::size_t i = 0; i < kExchanges; ++i) {
    const Items items = items_of(brought[i], 1);
    std::vector<std::int64_t> splits(static_cast<std::size_t>(comm.size()));
    splits[i % splits.size()] = items.count;
    outs.push_back(std::make_shared<Exchange>());
    operations.push_back(i % 2 == 0 ? comm::start_allgather(comm, items, outs.back())
                                    : comm::start_alltoall(comm, items, splits, outs.back()));
    operations.push_back(comm::start_allreduce(comm, buffer_of(sums[i]), comm::ReduceOp::sum));
  }
  std::ranges::shuffle(operations, random);
  for (comm::Operation& operation : operations) operation.wait();
  for (std::size_t i = 0; i < kExchanges; ++i) {
    outs[i]->require_done();
    const bool mine = i % 2 == 0 || i % static_cast<std::size_t>(comm.size()) == static_cast<std::size_t>(comm.rank());
    std::vector<std::byte> expected;
    for (int rank = 0; rank < comm.size() && mine; ++rank) {
      expected.insert(expected.end(), (i * 97 + static_cast<std::size_t>(rank) * 31) % 211, static_cast<std::byte>(rank + i));
    }
    ASSERT_TRUE(std::ranges::equal(outs[i]->data().span(), expected)) << i;
    ASSERT_EQ(sums[i], std::vector<float>(1009, static_cast<float>(comm.size())));
  }
}

/// Return the error message of an exchange on this rank.
std::string refusal(const Exchange& out) {
  return error_of([&] { out.require_done(); });
}

}  // namespace

void check_exchanges(Communicator& comm) {
  for (const std::int64_t item_bytes : {1, 12}) {
    check_alltoall(comm, item_bytes);
    check_gather(comm, item_bytes);
  }
  check_items_without_bytes(comm);
  check_exchanges_in_flight(comm);
}

void check_refused_exchanges(Communicator& comm) {
  const int last = comm.size() - 1;
  const auto size = static_cast<std::size_t>(comm.size());
  const std::vector<std::byte> data(size);
  const std::vector<std::int64_t> ones(size, 1);
  const auto after_splits = [&](const std::vector<std::int64_t>& splits) {
    const auto out = std::make_shared<Exchange>();
    comm::start_alltoall(comm, items_of(data, 1), comm.rank() == last ? splits : ones, out).wait();
    return refusal(*out);
  };
  std::vector<std::int64_t> negative = ones;
  negative[0] = -1;
  const std::string where = str_cat(" (on rank ", last, ")");
  EXPECT_EQ(after_splits({}), str_cat("alltoall: got 0 splits, expected one for each of the ", size, " ranks", where));
  EXPECT_EQ(after_splits(negative), str_cat("alltoall: a split is -1, expected at least 0", where));
  EXPECT_EQ(after_splits(std::vector<std::int64_t>(size, 2)),
            str_cat("alltoall: the splits add up to more than the ", size, " rows of the array", where));
  EXPECT_EQ(after_splits(std::vector<std::int64_t>(size, 0)),
            str_cat("alltoall: the splits add up to 0, expected the ", size, " rows of the array", where));

  Items items = items_of(data, 1);
  if (comm.rank() == last) items.problem = "no array at all";
  const auto problem = std::make_shared<Exchange>();
  comm::start_allgather(comm, items, problem).wait();
  EXPECT_EQ(refusal(*problem), str_cat("no array at all", where));
  if (last > 0) {
    const auto kinds = std::make_shared<Exchange>();
    comm::start_allgather(comm, items_of(data, comm.rank() == last ? comm.size() : 1), kinds).wait();
    EXPECT_EQ(refusal(*kinds), str_cat("allgather: expected arrays that differ in the length of axis 0 only, got ", size,
                                       " items of 1 bytes on rank 0 and 1 items of ", size, " bytes on rank ", last));
  }
  check_gather(comm, 1);  // the communicator still works after the errors
}

}  // namespace floodtide::test
