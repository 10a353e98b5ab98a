// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "support/collective_checks.hpp"
#include "support/threads.hpp"
#include "support/watchdog.hpp"

namespace floodtide {
namespace {

using comm::Communicator;

class ThreadRanks : public testing::TestWithParam<int> {
 protected:
  void run(const std::function<void(Communicator&)>& body) { comm::run_threads(GetParam(), body); }

 private:
  test::Watchdog watchdog_{std::chrono::seconds(100)};
};

TEST_P(ThreadRanks, AllreduceAgreesWithWiderSumsAndOnAllRanks) {
  run([](Communicator& comm) { test::check_allreduce(comm, false); });
}
TEST_P(ThreadRanks, AllreduceOfHalvesIsRoundedOnceAnOperation) {
  run([](Communicator& comm) { test::check_half_allreduce(comm, false); });
}
TEST_P(ThreadRanks, ExchangesOfUnknownLengths) { run(test::check_exchanges); }
TEST_P(ThreadRanks, ExchangesThatDoNotFitAreRefusedByAll) { run(test::check_refused_exchanges); }
TEST_P(ThreadRanks, AllreduceOfManySegments) {
  run([](Communicator& comm) { test::check_long_allreduce(comm, false); });
}
TEST_P(ThreadRanks, NarrowWireHalvesTheBytes) { run(test::check_narrow_wire); }
TEST_P(ThreadRanks, TrafficIsWhatTheSchedulesSay) { run(test::check_traffic); }
TEST_P(ThreadRanks, TwoLevelsWithEmulatedNodes) { run(test::check_two_levels); }
TEST_P(ThreadRanks, ManyOperationsInFlight) {
  run([](Communicator& comm) { test::check_concurrent_operations(comm, false); });
}
TEST_P(ThreadRanks, ReduceScatterOfAnyBlocks) { run(test::check_reduce_scatter); }
TEST_P(ThreadRanks, RanksThatDisagreeAllThrowTheSame) {
  run([](Communicator& comm) { test::check_disagreements(comm, false); });
}
TEST_P(ThreadRanks, DisagreementsLeaveOtherOperationsAlone) { run(test::check_disagreements_in_flight); }
TEST_P(ThreadRanks, GroupsAreComparedAsOne) { run(test::check_groups); }
TEST_P(ThreadRanks, DisagreementsBesideARankThatHasJoined) {
  run([](Communicator& comm) { test::check_disagreements_with_joined(comm, false); });
}
TEST_P(ThreadRanks, JoinedRanksAnswerTheOthers) { run(test::check_join); }
TEST_P(ThreadRanks, MessagesKeepTheirOrder) { run(test::check_messages); }
TEST_P(ThreadRanks, BroadcastFromEveryRoot) { run(test::check_broadcast); }
TEST_P(ThreadRanks, AllgatherOfDifferentLengths) { run(test::check_allgather); }
TEST_P(ThreadRanks, BarrierHoldsUntilTheLastCame) { run(test::check_barrier); }
TEST_P(ThreadRanks, SplitByColorAndKey) { run(test::check_split); }
TEST_P(ThreadRanks, AgreeGivesAllTheLowestRanksError) { run(test::check_agree); }

TEST_P(ThreadRanks, RingSumsInTheDocumentedOrder) {
  // Chunk c is summed in rank order, beginning with rank c. The sum of these values depends on the order, so that only this
  // order gives the expected bits.
  run([](Communicator& comm) {
    const int size = comm.size();
    const auto of_rank = [](int rank) {
      return std::vector<float>{1e8F, 1.0F, -1e8F, 0.3F, 3e7F, -1.7F, 2e6F, 0.1F}[static_cast<std::size_t>(rank)];
    };
    std::vector<float> values(static_cast<std::size_t>(size), of_rank(comm.rank()));  // one element per chunk
    comm::allreduce(comm, std::span(values), comm::ReduceOp::sum, "ring");
    for (int chunk = 0; chunk < size; ++chunk) {
      float expected = of_rank(chunk);
      for (int step = 1; step < size; ++step) expected += of_rank((chunk + step) % size);
      EXPECT_EQ(values[static_cast<std::size_t>(chunk)], expected) << "chunk " << chunk;
    }
  });
}

TEST_P(ThreadRanks, RingBitsDoNotDependOnTheSegmentSize) {
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  for (const std::size_t segment_bytes : {std::size_t{1}, std::size_t{40}, std::size_t{1} << 20U}) {
    run([&](Communicator& comm) {
      std::vector<float> values(1009);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 1.0F / static_cast<float>(3 * i + 7U * static_cast<unsigned>(comm.rank()) + 1);
      comm::allreduce(comm, std::span(values), comm::ReduceOp::sum, "ring", segment_bytes);
      const std::lock_guard lock(mutex);
      results.push_back(values);
    });
  }
  for (const auto& result : results) EXPECT_EQ(result, results.front());
}

TEST_P(ThreadRanks, NanOnAnyRankReachesAll) {
  for (const auto op : {comm::ReduceOp::sum, comm::ReduceOp::min, comm::ReduceOp::max}) {
    run([&](Communicator& comm) {
      std::vector<double> values(5, 1.0);
      if (comm.rank() == comm.size() - 1) values[3] = std::nan("");
      comm::allreduce(comm, std::span(values), op);
      EXPECT_TRUE(std::isnan(values[3]));
      EXPECT_FALSE(std::isnan(values[2]));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadRanks, testing::Range(1, 9), testing::PrintToStringParamName());

TEST(Threads, WaitingLeavesTheCore) {
  const test::Watchdog watchdog(std::chrono::seconds(100));
  comm::run_threads(2, test::check_waiting_is_cheap);
}

TEST(Threads, AnotherThreadMayDriveOperations) {
  const test::Watchdog watchdog(std::chrono::seconds(100));
  comm::run_threads(3, [](Communicator& comm) {
    std::atomic<bool> over = false;
    std::thread driver([&] {
      while (!over) {
        if (!comm::progress(comm)) std::this_thread::yield();
      }
    });
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<double>> arrays(4, std::vector<double>(5000, comm.rank() + 1.0));
      std::vector<comm::Operation> operations;
      for (auto& array : arrays) {
        const comm::ReduceBuffer buffer{std::as_writable_bytes(std::span(array)).data(), 5000, comm::ReduceType::float64};
        operations.push_back(comm::start_allreduce(comm, buffer, comm::ReduceOp::sum, {.segment_bytes = 4096}));
      }
      while (round % 2 == 0 && !operations.back().test()) std::this_thread::yield();
      operations.clear();  // the destructors complete the operations
      for (const auto& array : arrays) EXPECT_EQ(array, std::vector<double>(5000, 6.0));
    }
    over = true;
    driver.join();
  });
}

TEST(Threads, PendingNamesTheStepAndTheRankWaitedFor) {
  const test::Watchdog watchdog(std::chrono::seconds(100));
  comm::run_threads(2, [](Communicator& comm) {
    std::vector<float> values(10);
    const comm::ReduceBuffer buffer{std::as_writable_bytes(std::span(values)).data(), 10, comm::ReduceType::float32};
    if (comm.rank() == 0) {
      auto operation = comm::start_allreduce(comm, buffer, comm::ReduceOp::sum, {.algorithm = "ring"});
      EXPECT_EQ(comm.pending(),
                std::vector<std::string>{"collective 0, allreduce (ring, sum of 10 float32 in segments of 262144 bytes): "
                                         "waiting for rank 1 to start it"});
      comm.send(1, 0, {})->wait();
      operation.wait();
    } else {
      comm.receive(0, 0, {})->wait();
      comm::allreduce(comm, buffer, comm::ReduceOp::sum, {.algorithm = "ring"});
    }
    EXPECT_TRUE(comm.pending().empty());
  });
}

TEST(Threads, AbandonedCollectiveMakesTheCommunicatorUnusable) {
  const test::Watchdog watchdog(std::chrono::seconds(100));
  comm::run_threads(2, [](Communicator& comm) {
    const auto group = comm.split(0, comm.rank());
    if (comm.rank() == 0) {
      group->set_on_wait([] { throw std::runtime_error("interrupted"); });
      EXPECT_THROW(group->barrier(), std::runtime_error);
      group->set_on_wait({});
      try {
        group->barrier();
        ADD_FAILURE() << "a barrier after one that was abandoned";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "rank 0: barrier was abandoned");
      }
    }
    comm.barrier();
  });
}

TEST(Threads, AnOperationThatIsDroppedWaitsInSightOfItsCommunicator) {
  const test::Watchdog watchdog(std::chrono::seconds(100));
  comm::run_threads(2, [](Communicator& comm) {
    const auto group = comm.split(0, comm.rank());
    if (comm.rank() == 0) {
      int calls = 0;
      group->set_on_wait([&] {
        if (++calls == 3) throw std::runtime_error("interrupted");
      });
      {
        const comm::Operation dropped = comm::start_barrier(*group);
      }
      EXPECT_EQ(calls, 3);
      EXPECT_TRUE(group->is_spoiled());
      group->set_on_wait({});
      EXPECT_THROW(group->barrier(), Error);
    }
    comm.barrier();
  });
}

TEST(Threads, FailureOfOneRankWakesTheOthersWithItsName) {
  const test::Watchdog watchdog(std::chrono::seconds(20));
  std::atomic<int> woken = 0;
  try {
    comm::run_threads(4, [&](Communicator& comm) {
      if (comm.rank() == 2) throw std::runtime_error("no such volume");
      try {
        comm.barrier();
        FAIL() << "the barrier held without rank 2";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::communication);
        EXPECT_STREQ(error.what(), "rank 2 ended the job: no such volume");
        ++woken;
        throw;
      }
    });
    FAIL() << "the failure of rank 2 was swallowed";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no such volume");
  }
  EXPECT_EQ(woken, 3);
}

TEST(Threads, FailureReachesRanksThatWaitOnASplitCommunicator) {
  const test::Watchdog watchdog(std::chrono::seconds(20));
  EXPECT_THROW(comm::run_threads(3,
                                 [](Communicator& comm) {
                                   const auto pair = comm.split(comm.rank() == 0 ? 0 : 1, 0);
                                   if (comm.rank() == 0) throw std::runtime_error("alone");
                                   if (comm.rank() == 1) pair->receive(1, 0, {})->wait();
                                   if (comm.rank() == 2) pair->receive(0, 0, {})->wait();
                                 }),
               std::runtime_error);
}

TEST(Threads, WrongMessageLengthNamesBothRanks) {
  const auto ranks = comm::threads(1);
  Communicator* const comm = ranks.front().get();
  const std::byte data[3] = {};
  std::byte out[4] = {};
  comm->send(0, 5, data)->wait();
  try {
    comm->receive(0, 5, out)->wait();
    FAIL() << "a message of another length was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 0: message from rank 0 with tag 5 has 3 bytes, expected 4");
  }
}

TEST(Threads, WaitingCallsOnWaitAndStopsWhenItThrows) {
  const test::Watchdog watchdog(std::chrono::seconds(20));
  const auto ranks = comm::threads(1);
  Communicator* const comm = ranks.front().get();
  int calls = 0;
  comm->set_on_wait([&] {
    if (++calls == 3) throw std::runtime_error("interrupted");
  });
  EXPECT_THROW(comm->receive(0, 0, {})->wait(), std::runtime_error);
  EXPECT_EQ(calls, 3);
}

TEST(Threads, RanksAndTagsOutsideTheirRangeAreErrors) {
  const auto comm = comm::self();
  EXPECT_THROW(static_cast<void>(comm->send(1, 0, {})), Error);
  EXPECT_THROW(static_cast<void>(comm->receive(-1, 0, {})), Error);
  EXPECT_THROW(static_cast<void>(comm->send(0, comm::kLastTag + 1, {})), Error);
  EXPECT_THROW(comm::broadcast(*comm, {}, 1), Error);
  EXPECT_THROW(comm::threads(0), Error);
}

TEST(Allreduce, UnknownAlgorithmNamesTheKnownOnes) {
  try {
    static_cast<void>(comm::allreduce_row("torus"));
    FAIL() << "an unknown algorithm was found";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("allreduce: unknown algorithm 'torus', expected one of ring, ")) << message;
    for (const comm::AllreduceRow& row : comm::allreduce_rows())
      EXPECT_NE(message.find(row.name), std::string::npos) << row.name;
  }
}

TEST(Allreduce, LibraryAlgorithmIsRefusedWithoutALibrary) {
  const auto comm = comm::self();
  std::vector<float> values = {1, 2};
  EXPECT_NO_THROW(comm::allreduce(*comm, std::span(values), comm::ReduceOp::sum, "mpi"));
  try {
    comm::run_threads(2, [](Communicator& rank) {
      std::vector<float> own(3);
      comm::allreduce(rank, std::span(own), comm::ReduceOp::sum, "mpi");
    });
    FAIL() << "threads have no library";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

}  // namespace
}  // namespace floodtide
