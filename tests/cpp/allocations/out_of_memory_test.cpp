// SPDX-License-Identifier: Apache-2.0
// Without memory, threads of the library report an error. They neither end the process nor let other threads wait for ever.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "allocations/counted.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/activity.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/reducer.hpp"
#include "floodtide/comm/watchdog.hpp"
#include "support/threads.hpp"
#include "support/watchdog.hpp"
#include "train/exchange.hpp"
#include "unit/train/run_fixture.hpp"

namespace floodtide {
namespace {

using comm::Communicator;

constexpr std::int64_t kForEver = 1 << 20;

/// Threads of the test are spared, unless a test says otherwise.
class OutOfMemory : public train::RunFixture {
 protected:
  OutOfMemory() { test::spare_this_thread(true); }
  ~OutOfMemory() override { test::spare_this_thread(false); }

  /// Calls body(communicator) on two ranks, again and again, and lets `count` allocations fail from each allocation on in turn,
  /// until a run has no failure. Every run with a failure must end with an exception that says so.
  static void at_every_allocation(std::int64_t count, const std::function<void(Communicator&)>& body) {
    for (std::int64_t first = 0;; ++first) {
      ASSERT_LT(first, 5000) << "there is no end of allocations";
      std::optional<test::FailingAllocations> failing;
      std::string said;
      try {
        comm::run_threads(2, [&](Communicator& comm) {
          test::spare_this_thread(true);
          comm.barrier();
          if (comm.rank() == 0) failing.emplace(first, count);
          comm.barrier();
          body(comm);
        });
      } catch (const std::bad_alloc&) {
        said = "out of memory";
      } catch (const Error& error) {
        said = error.what();
      }
      const bool failed = test::FailingAllocations::have_failed();
      failing.reset();
      if (!failed) {
        EXPECT_EQ(said, "");
        return;
      }
      EXPECT_NE(said.find("out of memory"), std::string::npos) << "allocation " << first << ": '" << said << "'";
    }
  }

 private:
  test::Watchdog watchdog_{std::chrono::seconds(100)};
};

TEST_F(OutOfMemory, ACollectiveFailsOnTheRankAndItsCommunicatorKnows) {
  for (const std::int64_t count : {std::int64_t{1}, kForEver}) {
    at_every_allocation(count, [](Communicator& comm) {
      std::vector<float> values(1000, 1.0F);
      test::spare_this_thread(comm.rank() != 0);
      std::exception_ptr failure;
      try {
        comm::allreduce(comm, std::span(values), comm::ReduceOp::sum, "rabenseifner");
      } catch (...) {
        failure = std::current_exception();
      }
      test::spare_this_thread(true);
      if (!failure) return;
      // The other rank waits in the allreduce: this is another collective, or the communicator has failed.
      EXPECT_ANY_THROW(comm.barrier());
      std::rethrow_exception(failure);
    });
  }
}

TEST_F(OutOfMemory, TheThreadOfAReducerReportsToItsCaller) {
  at_every_allocation(1, [](Communicator& comm) {
    std::vector<float> values(1000, 1.0F);
    comm::Reducer reducer(comm, values, {{0, 400}, {400, 1000}}, {.bucket_bytes = 64, .algorithm = "ring"}, nullptr);
    reducer.begin(0);
    for (const std::size_t part : {1U, 0U}) {
      reducer.ready(part);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the thread of the reducer drives the sum
    }
    reducer.finish();
  });
}

/// Parameters that never change.
class NoUpdates final : public train::Updates {
 public:
  void update(std::span<float>, std::int64_t) override {}
  [[nodiscard]] std::span<const float> parameters() const override { return parameters_; }
  [[nodiscard]] bool meet_after(std::int64_t steps) const override { return steps >= 4; }

 private:
  std::vector<float> parameters_ = std::vector<float>(3);
};

TEST_F(OutOfMemory, TheThreadsOfExchangesReportToTheirCallers) {
  at_every_allocation(1, [](Communicator& comm) {
    NoUpdates updates;
    const auto exchange =
        train::make_partial_exchange(comm, updates, {.length = train::kFlags + 3, .contributors = 2, .algorithm = "ring"});
    exchange->resume(0);
    std::vector<float> message(train::kFlags + 3, 1.0F), parameters(3);
    message[train::kFailed] = 0;
    std::fill_n(message.begin() + train::kFirstRequest, std::size(train::kRequests), 0.0F);
    train::ExchangeReport report;
    do {
      report = exchange->give(message, report.step, parameters);
    } while (!report.meet);
  });
}

TEST_F(OutOfMemory, AWatchdogWatchesOnWhenThereIsMemoryAgain) {
  std::atomic<int> started = 0;
  comm::run_threads(2, [&](Communicator& comm) {
    test::spare_this_thread(true);
    comm::ActivityLog log;
    log.set_limit(1);
    comm::Watchdog watchdog(comm, log, {});
    ++started;
    while (started < 2) std::this_thread::yield();
    if (comm.rank() == 0) {
      const test::FailingAllocations failing(0, kForEver);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    EXPECT_TRUE(test::FailingAllocations::have_failed() || comm.rank() != 0);
    comm.barrier();
    watchdog.leave();
    while (!watchdog.over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

TEST_F(OutOfMemory, AReaderReportsToTheCallerOfThePrefetcher) {
  const data::ExampleSource source = examples(1);
  for (std::int64_t first = 0;; ++first) {
    ASSERT_LT(first, 5000) << "there is no end of allocations";
    const test::FailingAllocations failing(first, 1);
    std::optional<ErrorCode> code;
    try {
      data::Prefetcher prefetcher(source, {data::Cursor{}}, 1, 1);
      static_cast<void>(prefetcher.next(0));
      if (!test::FailingAllocations::have_failed()) return;
      static_cast<void>(prefetcher.next(0));
    } catch (const std::bad_alloc&) {
      code = ErrorCode::io;
    } catch (const Error& error) {
      code = error.code();
    }
    EXPECT_TRUE(code.has_value()) << "allocation " << first;
  }
}

}  // namespace
}  // namespace floodtide
