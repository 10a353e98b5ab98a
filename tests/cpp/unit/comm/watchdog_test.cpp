// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/watchdog.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "support/watchdog.hpp"

namespace floodtide::comm {
namespace {

constexpr double kTimeoutS = 0.4;

/// Reasons that ranks gave.
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

/// Runs body on three ranks with watchdogs, expects the job to be ended and returns the reason.
template <class Body>
std::string reason_of(Body body, const std::string& records = "") {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  Reports reports;
  EXPECT_THROW(run_threads(3,
                           [&](Communicator& comm) {
                             Timeline timeline;
                             const std::string record =
                                 records.empty() ? "" : records + "/rank" + std::to_string(comm.rank()) + ".json";
                             const Watchdog dog(comm, timeline, {kTimeoutS, std::ref(reports), record});
                             body(comm, timeline);
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
    // Each receives what nobody sends: as after a collective that one rank called twice.
    comm.receive((comm.rank() + 1) % 3, 9, std::as_writable_bytes(std::span(values)))->wait();
  });
  EXPECT_NE(reason.find("for rank 2 (allreduce of step 4)"), std::string::npos) << reason;
}

TEST(Watchdog, IsQuietWhileRanksAreBusyForLongButMeet) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  Reports reports;
  run_threads(3, [&](Communicator& comm) {
    Timeline timeline;
    const Watchdog dog(comm, timeline, {kTimeoutS, std::ref(reports), ""});
    for (std::int64_t step = 0; step < 3; ++step) {
      {
        const ScopedEvent compute(&timeline, {"compute", "step", step});
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      }
      wait_in_allreduce(comm, timeline, step);
    }
  });
  EXPECT_TRUE(reports.reasons.empty());
}

TEST(Watchdog, OneRankIsNotWatched) {
  const auto comm = self();
  const Timeline timeline;
  const Watchdog dog(*comm, timeline, {0.01, {}, ""});
  EXPECT_THROW(Watchdog(*comm, timeline, {0, {}, ""}), Error);
}

}  // namespace
}  // namespace floodtide::comm
