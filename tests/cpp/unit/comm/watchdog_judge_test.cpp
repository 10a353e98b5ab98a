// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog_judge.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace floodtide::comm {
namespace {

/// Return the state of rank 3, whose last message came at 100 s. `told_s` is the limit in this message, if it had one.
RankState heard(std::optional<double> told_s, double period_s) {
  RankState state;
  state.rank = 3;
  state.heard_s = 100;
  if (!told_s) return state;
  state.known.emplace();
  state.known->period_s = period_s;
  state.known->activity.limit_s = *told_s;
  return state;
}

/// Return the seconds without a message after which rank 3 counts as silent; 0: never.
double silent_after(const RankState& state, double limit_s) {
  for (int tenths = 1; tenths < 1000; ++tenths) {
    if (!silence(state, 100 + 0.1 * tenths, limit_s, true).empty()) return 0.1 * (tenths - 1);
  }
  return 0;
}

TEST(WatchdogJudge, TheShorterLimitOfTheTwoRanksHolds) {
  EXPECT_NEAR(silent_after(heard(5.0, 0.5), 5), 5, 0.05);
  EXPECT_NEAR(silent_after(heard(60.0, 2), 5), 5, 0.05);
  EXPECT_NEAR(silent_after(heard(5.0, 0.5), 60), 5, 0.05);
  EXPECT_NEAR(silent_after(heard(5.0, 0.5), 0), 5, 0.05);
}

TEST(WatchdogJudge, ARankThatWasLostBeforeItToldItsLimitIsSilentByTheOwnOne) {
  EXPECT_NEAR(silent_after(heard(0.0, 2), 5), 5, 0.05);
  EXPECT_NEAR(silent_after(heard(std::nullopt, 0), 5), 5, 0.05);
}

TEST(WatchdogJudge, WithoutAnyLimitNobodyIsSilent) {
  EXPECT_EQ(silent_after(heard(0.0, 2), 0), 0);
  EXPECT_EQ(silent_after(heard(std::nullopt, 0), 0), 0);
}

TEST(WatchdogJudge, ARankThatBeatsSlowlyMayMissTwoBeats) {
  EXPECT_NEAR(silent_after(heard(0.0, 2), 1), 4, 0.05);
  EXPECT_NEAR(silent_after(heard(60.0, 2), 1), 4, 0.05);
}

}  // namespace
}  // namespace floodtide::comm
