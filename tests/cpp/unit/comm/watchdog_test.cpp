// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/watchdog.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/activity.hpp"
#include "floodtide/comm/collectives.hpp"
#include "support/threads.hpp"
#include "support/watchdog.hpp"

namespace floodtide::comm {
namespace {

constexpr double kTimeoutS = 0.4;

/// Collects the reasons that watchdogs report.
struct Reports {
  std::mutex mutex;
  std::vector<std::string> reasons;
  void operator()(const std::string& reason) {
    const std::lock_guard lock(mutex);
    reasons.push_back(reason);
  }
};

void wait_in_allreduce(Communicator& comm, Timeline& timeline, std::int64_t step) {
  const ScopedEvent event(&timeline, {"allreduce", "communication", step, 2});
  std::array<float, 4> values{};
  allreduce(comm, std::span<float>(values), ReduceOp::sum);
}

/// A rank of a training job, which notes when it waits.
struct TrainingRank {
  TrainingRank(Communicator& comm, const Timeline& timeline, double limit_s, const std::string& record_path)
      : training(log, timeline, limit_s, record_path) {
    comm.set_on_wait([this, &comm] { log.note_wait(comm, ""); });
  }

  ActivityLog log;
  ActivityLog::Training training;
};

/// Calls body on three ranks with watchdogs, expects that a watchdog ends the job, and returns the reason.
template <class Body>
std::string reason_of(Body body, const std::string& records = "") {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  Reports reports;
  EXPECT_THROW(run_threads(3,
                           [&](Communicator& comm) {
                             Timeline timeline;
                             const std::string record =
                                 records.empty() ? "" : records + "/rank" + std::to_string(comm.rank()) + ".json";
                             TrainingRank rank(comm, timeline, kTimeoutS, record);
                             Watchdog dog(comm, rank.log, {.report = std::ref(reports)});
                             body(comm, timeline);
                             dog.leave();
                             while (!dog.over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                             comm.barrier();  // throws, because the job has ended
                           }),
               Error);
  EXPECT_EQ(reports.reasons.size(), 1U);
  return reports.reasons.empty() ? "" : reports.reasons[0];
}

TEST(Watchdog, NamesTheRankThatDoesNotComeToACollective) {
  const std::string folder = testing::TempDir() + "/watchdog";
  std::filesystem::create_directories(folder);
  const double start = now_s();
  const std::string reason = reason_of(
      [](Communicator& comm, Timeline& timeline) {
        if (comm.rank() == 1) {
          const ScopedEvent compute(&timeline, {"compute", "step", 7});
          std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        }
        wait_in_allreduce(comm, timeline, 7);
      },
      folder);
  EXPECT_LT(now_s() - start, 5);
  EXPECT_NE(reason.find("for rank 1 (compute of step 7)"), std::string::npos) << reason;
  EXPECT_NE(reason.find("allreduce of step 7, bucket 2"), std::string::npos) << reason;
  for (const char* rank : {"0", "1", "2"}) EXPECT_TRUE(std::filesystem::exists(folder + "/rank" + rank + ".json")) << rank;
  std::filesystem::remove_all(folder);
}

TEST(Watchdog, NamesARankThatLeft) {
  const std::string reason = reason_of([](Communicator& comm, Timeline& timeline) {
    if (comm.rank() != 2) wait_in_allreduce(comm, timeline, 3);
  });
  EXPECT_NE(reason.find("rank 2 (has left)"), std::string::npos) << reason;
}

TEST(Watchdog, NamesTheRankInAnEarlierStep) {
  const std::string reason = reason_of([](Communicator& comm, Timeline& timeline) {
    const ScopedEvent event(&timeline, {"allreduce", "communication", comm.rank() == 2 ? 4 : 5});
    std::array<float, 1> values{};
    // Each rank waits for a message that no rank sends, as if one rank had called a collective twice.
    comm.receive((comm.rank() + 1) % 3, 9, std::as_writable_bytes(std::span(values)))->wait();
  });
  EXPECT_NE(reason.find("for rank 2 (waiting in allreduce of step 4)"), std::string::npos) << reason;
}

// Ranks 0 and 1 cannot be reached, as if the network cable were cut.
TEST(Watchdog, LastRankEndsTheJobIfNobodyElseDoes) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  Reports reports;
  const double start = now_s();
  EXPECT_THROW(run_threads(3,
                           [&](Communicator& comm) {
                             ActivityLog log;
                             log.set_limit(kTimeoutS);
                             auto dog = std::make_unique<Watchdog>(comm, log, WatchdogOptions{.report = std::ref(reports)});
                             std::this_thread::sleep_for(std::chrono::milliseconds(200));  // time for a first message
                             if (comm.rank() < 2) dog.reset();
                             while (true) {
                               std::this_thread::sleep_for(std::chrono::milliseconds(10));
                               static_cast<void>(comm.send(comm.rank(), 0, {}));  // throws when the job has ended
                             }
                           }),
               Error);
  EXPECT_LT(now_s() - start, kTimeoutS + 5);
  ASSERT_EQ(reports.reasons.size(), 1U);
  EXPECT_NE(reports.reasons[0].find("rank 0 has been silent for 0.4 s"), std::string::npos) << reports.reasons[0];
}

TEST(Watchdog, IsQuietWhileRanksAreBusyForLongButMeet) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  Reports reports;
  run_threads(3, [&](Communicator& comm) {
    Timeline timeline;
    TrainingRank rank(comm, timeline, kTimeoutS, "");
    Watchdog dog(comm, rank.log, {.report = std::ref(reports)});
    for (std::int64_t step = 0; step < 3; ++step) {
      {
        const ScopedEvent compute(&timeline, {"compute", "step", step});
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      }
      wait_in_allreduce(comm, timeline, step);
    }
    dog.leave();
    while (!dog.over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_TRUE(reports.reasons.empty());
}

TEST(Watchdog, WarnsOnceBeforeTheLimit) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  Reports reports;
  run_threads(3, [&](Communicator& comm) {
    ActivityLog log;
    log.set_limit(2);
    comm.set_on_wait([&] { log.note_wait(comm, ""); });
    Watchdog dog(comm, log, {.warn = std::ref(reports), .warn_s = 0.3});
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    comm.barrier();
    dog.leave();
    while (!dog.over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  ASSERT_EQ(reports.reasons.size(), 1U);
  EXPECT_NE(reports.reasons[0].find("for rank 1 (not in a collective); the job ends after 2 s"), std::string::npos)
      << reports.reasons[0];
}

TEST(Watchdog, NamesTheCollectiveAndTheProcessSet) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  Reports reports;
  EXPECT_THROW(run_threads(3,
                           [&](Communicator& comm) {
                             ActivityLog log;
                             log.set_limit(kTimeoutS);
                             Watchdog dog(comm, log, {.report = std::ref(reports)});
                             const auto pair = comm.split(comm.rank() == 1 ? 1 : 0, comm.rank());
                             pair->set_on_wait([&] { log.note_wait(*pair, "0, 2"); });
                             if (comm.rank() == 0) pair->barrier();
                             dog.leave();
                             while (!dog.over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                             comm.barrier();
                           }),
               Error);
  ASSERT_EQ(reports.reasons.size(), 1U);
  EXPECT_EQ(
      reports.reasons[0],
      "rank 0 has been waiting for 0.4 s in collective 0, barrier, of the process set of ranks 0, 2 for rank 2 (has left)");
}

TEST(Watchdog, ReadsListsOfRanks) {
  EXPECT_EQ(ranks_in("0, 2-4, 7"), (std::vector<int>{0, 2, 3, 4, 7}));
  EXPECT_TRUE(ranks_in("").empty());
  for (const char* text : {"0, ", "0,1", "1-", "a", "0, 2-4,"}) EXPECT_TRUE(ranks_in(text).empty()) << text;
}

TEST(Watchdog, AWaitGoesOnAfterTheProcessWasStopped) {
  const auto comm = self();
  ActivityLog log;
  log.note_wait(*comm, "");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // longer than a wait lasts that is not noted again
  ASSERT_EQ(log.now().waits, 0);
  log.leave_out(1.1);
  EXPECT_EQ(log.now().waits, 1);
  EXPECT_EQ(log.now().for_s, 0);
  log.note_wait(*comm, "");
  EXPECT_LT(log.now().for_s, 0.5);
}

TEST(Watchdog, AWaitKeepsItsTimeIfItIsNotedBeforeTheStopIsKnown) {
  const auto comm = self();
  ActivityLog log;
  log.note_wait(*comm, "");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  log.note_wait(*comm, "");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // the stop
  log.note_wait(*comm, "");
  log.leave_out(1.1);
  EXPECT_GE(log.now().for_s, 0.2);
  EXPECT_LT(log.now().for_s, 0.9);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  log.forget_waits_over();
  log.note_wait(*comm, "");
  EXPECT_EQ(log.now().for_s, 0);
}

TEST(Watchdog, OneRankIsNotWatched) {
  const auto comm = self();
  ActivityLog log;
  log.set_limit(0.01);
  Watchdog dog(*comm, log, {});
  EXPECT_TRUE(dog.over());
  EXPECT_THROW(log.set_limit(-1), Error);
}

}  // namespace
}  // namespace floodtide::comm
