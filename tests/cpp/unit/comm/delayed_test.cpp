// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/delayed.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <ctime>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/operation.hpp"
#include "support/collective_checks.hpp"
#include "support/watchdog.hpp"

namespace floodtide {
namespace {

using comm::Communicator;

double thread_cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class DelayedRanks : public testing::Test {
 protected:
  static void run(int ranks, const comm::WireDelay& delay, const std::function<void(Communicator&)>& body) {
    comm::run_threads(ranks, [&](Communicator& comm) { body(*comm::delayed(comm, delay)); });
  }

 private:
  test::Watchdog watchdog_{std::chrono::seconds(100)};
};

// Checks for all transports. Messages on different channels arrive in another order than that in which they were sent.
TEST_F(DelayedRanks, AreRanksLikeAnyOthers) {
  for (const auto& check : {test::check_traffic, test::check_messages, test::check_broadcast, test::check_allgather,
                            test::check_split, test::check_agree, test::check_disagreements_in_flight, test::check_join}) {
    run(3, {.latency_s = 1e-5, .bytes_per_s = 1e9}, check);
  }
  run(3, {.latency_s = 1e-5, .bytes_per_s = 1e9}, [](Communicator& comm) { test::check_concurrent_operations(comm, false); });
}

// Tags repeat after 1,024 collectives. The next one waits until the collective with the same tag is done.
TEST_F(DelayedRanks, ALongCollectiveBesideManyShortOnesKeepsItsMessages) {
  run(2, {.latency_s = 2e-3}, [](Communicator& comm) {
    std::vector<float> many(2000, 1.0F);
    const comm::ReduceBuffer buffer{std::as_writable_bytes(std::span(many)).data(), std::ssize(many),
                                    comm::ReduceType::float32};
    comm::Operation slow = comm::start_allreduce(comm, buffer, comm::ReduceOp::sum, {.algorithm = "ring", .segment_bytes = 8});
    std::vector<comm::Operation> started;
    std::vector<float> ones(1100, 1.0F);
    for (float& one : ones) {
      const comm::ReduceBuffer small{std::as_writable_bytes(std::span(&one, 1)).data(), 1, comm::ReduceType::float32};
      started.push_back(comm::start_allreduce(comm, small, comm::ReduceOp::sum, {.algorithm = "ring"}));
      if (started.size() > 500) {
        for (comm::Operation& operation : started) operation.wait();
        started.clear();
      }
    }
    for (comm::Operation& operation : started) operation.wait();
    slow.wait();
    for (const float sum : many) ASSERT_EQ(sum, 2.0F);
    for (const float sum : ones) ASSERT_EQ(sum, 2.0F);
  });
}

TEST_F(DelayedRanks, MessagesOfARankLeaveOneAfterAnother) {
  constexpr double kLatencyS = 0.02;
  constexpr double kBytesPerS = 1e5;
  constexpr std::size_t kBytes = 4000;  // 40 ms each
  std::atomic<double> start_s = 0;
  run(2, {kLatencyS, kBytesPerS}, [&](Communicator& comm) {
    std::array<std::byte, kBytes> data{};
    if (comm.rank() == 0) {
      start_s = now_s();
      comm.send(1, 1, data)->wait();  // does not wait for the simulated time
      comm.send(1, 2, data)->wait();
      return;
    }
    const auto second = comm.receive(0, 2, data);
    std::array<std::byte, kBytes> other{};
    comm.receive(0, 1, other)->wait();
    EXPECT_GE(now_s() - start_s, 0.06);
    second->wait();
    EXPECT_GE(now_s() - start_s, 0.10);
  });
}

TEST_F(DelayedRanks, WaitingCostsNoCore) {
  run(2, {.latency_s = 0.3}, [](Communicator& comm) {
    std::byte byte{};
    const double before_s = thread_cpu_s();
    if (comm.rank() == 0) {
      comm.send(1, 1, {&byte, 1})->wait();
    } else {
      comm.receive(0, 1, {&byte, 1})->wait();
    }
    EXPECT_LE(thread_cpu_s() - before_s, 0.1);
  });
}

TEST_F(DelayedRanks, CallOnWaitWhileTheyWait) {
  EXPECT_THROW(comm::run_threads(2,
                                 [](Communicator& comm) {
                                   if (comm.rank() == 1) comm.set_on_wait([] { throw std::string("on_wait"); });
                                   const auto slow = comm::delayed(comm, {.latency_s = 100});
                                   std::byte byte{};
                                   if (comm.rank() == 0) {
                                     slow->send(1, 1, {&byte, 1})->wait();
                                   } else {
                                     slow->receive(0, 1, {&byte, 1})->wait();
                                   }
                                 }),
               std::string);
}

TEST_F(DelayedRanks, RefuseNegativeNumbers) {
  const auto one = comm::self();
  EXPECT_THROW(static_cast<void>(comm::delayed(*one, {.latency_s = -1})), Error);
  EXPECT_THROW(static_cast<void>(comm::delayed(*one, {.bytes_per_s = -1})), Error);
}

}  // namespace
}  // namespace floodtide
