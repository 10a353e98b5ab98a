// SPDX-License-Identifier: Apache-2.0
#include "train/exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "support/threads.hpp"
#include "support/watchdog.hpp"

namespace floodtide::train {
namespace {

constexpr std::size_t kParameters = 3;
constexpr std::int64_t kSteps = 20;

/// Parameters that count the gradients, which are all 1. The ranks meet after every kSteps updates.
class Count final : public Updates {
 public:
  void update(std::span<float> message, std::int64_t) override {
    for (std::size_t i = 0; i < kParameters; ++i) parameters_[i] += message[kFlags + i];
    fovs_ += static_cast<std::int64_t>(message[kExamples]);
  }
  [[nodiscard]] std::span<const float> parameters() const override { return parameters_; }
  [[nodiscard]] bool meet_after(std::int64_t steps) const override { return steps % kSteps == 0; }
  [[nodiscard]] std::int64_t fovs() const { return fovs_; }

 private:
  std::vector<float> parameters_ = std::vector<float>(kParameters);
  std::int64_t fovs_ = 0;
};

std::vector<float> ones() {
  std::vector<float> message(kFlags + kParameters, 0.0F);
  std::fill(message.begin() + static_cast<std::ptrdiff_t>(kFlags), message.end(), 1.0F);
  message[kExamples] = 1;
  return message;
}

struct Interruption {};

class PartialAverage : public testing::TestWithParam<Late> {
 private:
  test::Watchdog watchdog_{std::chrono::seconds(60)};
};

TEST_P(PartialAverage, DoesNotWaitForASlowRank) {
  // The slow rank gives its gradients only after the other ranks have met. If they waited for it, they would never meet.
  std::atomic<int> others = 0;
  comm::run_threads(4, [&](comm::Communicator& comm) {
    Count count;
    const auto exchange = make_partial_exchange(
        comm, count, {.length = kFlags + kParameters, .contributors = 3, .late = GetParam(), .algorithm = "ring"});
    std::vector<float> parameters(kParameters);
    for (std::int64_t meeting = 1; meeting <= 3; ++meeting) {
      exchange->resume((meeting - 1) * kSteps);
      std::int64_t given = 0, used = 0, step = (meeting - 1) * kSteps;
      ExchangeReport report;
      if (comm.rank() == 3) {
        while (others < 3 * meeting) std::this_thread::yield();
      }
      do {
        report = exchange->give(ones(), step, parameters);
        step = report.step;
        ++given;
        used += report.used ? 1 : 0;
      } while (!report.meet);
      if (comm.rank() < 3) ++others;
      EXPECT_EQ(report.step, meeting * kSteps);
      // All gradients of the fast ranks were used, except where carried gradients were used instead of them.
      const std::int64_t carried = GetParam() == Late::carry ? meeting - 1 : 0;
      EXPECT_GE(count.fovs(), meeting * kSteps * 3);
      EXPECT_LE(count.fovs() - meeting * kSteps * 3, carried);
      EXPECT_EQ(parameters[0], static_cast<float>(count.fovs()));
      if (comm.rank() == 3 && GetParam() == Late::carry) {
        EXPECT_EQ(given, 1);
        EXPECT_EQ(used, 1);
        EXPECT_EQ(report.staleness, kSteps - 1);
      } else if (comm.rank() == 3) {
        EXPECT_LE(given, 2) << "its thread may be an update behind when it gives the first ones";
        EXPECT_EQ(used, 0);
      } else if (GetParam() == Late::drop) {
        EXPECT_EQ(used, kSteps);
      }
      comm.barrier();
    }
  });
}

TEST_P(PartialAverage, EndsBetweenMeetings) {
  comm::run_threads(2, [&](comm::Communicator& comm) {
    Count count;
    const auto exchange = make_partial_exchange(
        comm, count, {.length = kFlags + kParameters, .contributors = 2, .late = GetParam(), .algorithm = "ring"});
    exchange->resume(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its thread waits for an update
  });
}

TEST_P(PartialAverage, EndsWhileItsThreadWaitsForARankThatHasLeft) {
  std::atomic<bool> left = false;
  comm::run_threads(2, [&](comm::Communicator& comm) {
    Count count;
    comm.set_on_wait([&] {
      if (left) throw Interruption();
    });
    auto exchange = make_partial_exchange(
        comm, count, {.length = kFlags + kParameters, .contributors = 1, .late = GetParam(), .algorithm = "ring"});
    exchange->resume(0);
    std::vector<float> parameters(kParameters);
    if (comm.rank() == 0) {
      while (!left) std::this_thread::yield();
      EXPECT_THROW(static_cast<void>(exchange->give(ones(), 0, parameters)), Interruption);
    }
    exchange.reset();  // the thread of rank 0 waits in a sum that rank 1 will not start
    left = true;
    comm.set_on_wait({});
  });
}

INSTANTIATE_TEST_SUITE_P(Late, PartialAverage, testing::Values(Late::drop, Late::carry));

}  // namespace
}  // namespace floodtide::train
