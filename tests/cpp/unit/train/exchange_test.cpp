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
#include "support/watchdog.hpp"

namespace floodtide::train {
namespace {

constexpr std::size_t kParameters = 3;
constexpr std::int64_t kSteps = 20;

/// Parameters that count the gradients, which are all 1. The ranks meet after `steps` updates; 0: only if a rank asks for it.
class Count final : public Updates {
 public:
  explicit Count(std::int64_t steps = kSteps) : steps_(steps) {}
  void update(std::span<float> message, std::int64_t) override {
    for (std::size_t i = 0; i < kParameters; ++i) parameters_[i] += message[kFlags + i];
    fovs_ += static_cast<std::int64_t>(message[kExamples]);
  }
  [[nodiscard]] std::span<const float> parameters() const override { return parameters_; }
  [[nodiscard]] bool meet_after(std::int64_t steps) const override { return steps_ > 0 && steps % steps_ == 0; }
  [[nodiscard]] std::int64_t fovs() const { return fovs_; }

 private:
  std::int64_t steps_;
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

TEST(ParameterServer, AppliesEveryRanksGradientsOnceAndSendsTheNewestParameters) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  std::atomic<std::int64_t> used = 0;
  comm::run_threads(3, [&](comm::Communicator& comm) {
    Count count;
    const auto exchange = make_parameter_server(comm, count, {.length = kFlags + kParameters, .algorithm = "ring"});
    std::vector<float> parameters(kParameters);
    exchange->resume(0);
    std::int64_t step = 0;
    ExchangeReport report;
    do {
      report = exchange->give(ones(), step, parameters);
      EXPECT_EQ(parameters[0], static_cast<float>(report.step));
      EXPECT_GE(report.staleness, 0);
      step = report.step;
      used += report.used ? 1 : 0;
    } while (!report.meet);
    EXPECT_EQ(report.step, kSteps);
  });
  EXPECT_EQ(used, kSteps);
}

TEST(ParameterServer, ARequestOfOneRankReachesAllAtTheSameStep) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  std::vector<std::int64_t> steps(3);
  comm::run_threads(3, [&](comm::Communicator& comm) {
    Count count(0);  // the other ranks go on until the request of rank 2, however late it is
    const auto exchange = make_parameter_server(comm, count, {.length = kFlags + kParameters, .algorithm = "ring"});
    std::vector<float> parameters(kParameters), message = ones();
    exchange->resume(0);
    if (comm.rank() == 2) message[kFirstRequest + 1] = 1;  // request a checkpoint
    ExchangeReport report;
    do {
      report = exchange->give(message, report.step, parameters);
    } while (!report.meet);
    EXPECT_EQ(report.requests, kCheckpoint);
    steps[static_cast<std::size_t>(comm.rank())] = report.step;
  });
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_EQ(steps[0], steps[2]);
}

TEST(ParameterServer, EndsBeforeAMeetingThatRank0DoesNotComeTo) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  std::atomic<bool> met = false;
  comm::run_threads(2, [&](comm::Communicator& comm) {
    Count count(1);
    const auto exchange = make_parameter_server(comm, count, {.length = kFlags + kParameters, .algorithm = "ring"});
    std::vector<float> parameters(kParameters);
    exchange->resume(0);
    if (comm.rank() == 1) {
      EXPECT_TRUE(exchange->give(ones(), 0, parameters).meet);
      met = true;
    }
    while (!met) std::this_thread::yield();  // rank 0 leaves without an answer
  });
}

TEST(ParameterServer, Rank0ComesToAMeetingWhenAllRanksKnowOfIt) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  std::atomic<bool> has_answer = false;
  comm::run_threads(2, [&](comm::Communicator& comm) {
    Count count(1);
    const auto exchange = make_parameter_server(comm, count, {.length = kFlags + kParameters, .algorithm = "ring"});
    std::vector<float> parameters(kParameters);
    exchange->resume(0);
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const ExchangeReport report = exchange->give(ones(), 0, parameters);
    EXPECT_TRUE(report.meet);
    EXPECT_EQ(report.step, 1);
    if (comm.rank() == 1) has_answer = true;
    if (comm.rank() == 0) {
      while (!has_answer) std::this_thread::yield();  // it is under way: the server has sent it
    }
  });
}

TEST(ParameterServer, AFailedUpdateIsNoFailureThatAllRanksKnow) {
  const test::Watchdog watchdog(std::chrono::seconds(60));
  class Failing final : public Updates {
   public:
    void update(std::span<float>, std::int64_t) override { throw comm::AgreedError(ErrorCode::numerical, "not finite", 0); }
    [[nodiscard]] std::span<const float> parameters() const override { return parameters_; }
    [[nodiscard]] bool meet_after(std::int64_t) const override { return false; }

   private:
    std::vector<float> parameters_ = std::vector<float>(kParameters);
  } failing;
  const auto alone = comm::self();
  const auto exchange = make_parameter_server(*alone, failing, {.length = kFlags + kParameters, .algorithm = "ring"});
  exchange->resume(0);
  std::vector<float> parameters(kParameters);
  try {
    static_cast<void>(exchange->give(ones(), 0, parameters));
    FAIL() << "expected an Error";
  } catch (const comm::AgreedError&) {
    FAIL() << "the other ranks would wait for ever";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::numerical);
  }
}

}  // namespace
}  // namespace floodtide::train
