// SPDX-License-Identifier: Apache-2.0
#include "support/collective_checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "support/collective_values.hpp"

namespace floodtide::test {

using comm::Communicator;
using comm::ReduceOp;

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
  using Clock = std::chrono::steady_clock;  // all ranks of a machine have the same clock
  if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  std::array<std::int64_t, 1> last_entry = {Clock::now().time_since_epoch().count()};
  comm.barrier();
  const std::int64_t leave = Clock::now().time_since_epoch().count();
  comm::allreduce(comm, std::span<std::int64_t>(last_entry), ReduceOp::max);
  EXPECT_GE(leave, last_entry[0]);
}

void check_split(Communicator& comm) {
  const int color = comm.rank() % 2;
  const auto half = comm.split(color, -comm.rank());
  std::vector<std::byte> expected;  // the original ranks with the same color, from the highest to the lowest
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
