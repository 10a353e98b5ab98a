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

/// Return the seconds after which the job ends if rank 0 waits in a collective for rank 1.
double ends_after(bool rank_1_has_left, double limit_s) {
  RankState states[2];
  for (int rank = 0; rank < 2; ++rank) {
    states[rank].rank = rank;
    states[rank].known.emplace();
    states[rank].known->period_s = 0.5;
    states[rank].known->activity.limit_s = limit_s;
  }
  states[1].known->leaves = rank_1_has_left ? 1 : 0;
  states[1].left_s = 100;
  Activity& waiting = states[0].known->activity;
  waiting.waits = 1;
  waiting.number = 7;
  for (int tenths = 1; tenths < 10000; ++tenths) {
    waiting.for_s = 0.1 * tenths;
    for (RankState& state : states) state.heard_s = 100 + waiting.for_s;
    if (stalled(states, 100 + waiting.for_s, 0).ends) return waiting.for_s;
  }
  return 0;
}

TEST(WatchdogJudge, NobodyWaitsLongForARankThatHasLeft) {
  EXPECT_NEAR(ends_after(false, 300), 299.5, 0.2);
  EXPECT_NEAR(ends_after(true, 300), 4.5, 0.2);
  EXPECT_NEAR(ends_after(true, 2), 1.5, 0.2);
}

/// Return whether the job ends because rank 1 has told, `news_s` seconds after rank 0 has left, that it waits for rank 0.
bool ends_by_news(double news_s) {
  RankState states[2] = {{.rank = 0, .known = Beat{}, .heard_s = 106, .left_s = 100}, {.rank = 1, .known = Beat{}}};
  for (RankState& state : states) state.known->period_s = 2;
  states[0].known->leaves = 1;
  states[1].heard_s = 100 + news_s;
  states[1].known->activity.waits = 1;
  states[1].known->activity.for_s = 8;
  states[1].known->activity.limit_s = 300;
  return stalled(states, 106, 0).ends;  // rank 1 is not silent yet
}

TEST(WatchdogJudge, OldNewsOfAWaitForARankThatHasLeftDoNotCount) {
  EXPECT_FALSE(ends_by_news(1));
  EXPECT_FALSE(ends_by_news(2.9));
  EXPECT_TRUE(ends_by_news(3.1));
}

TEST(WatchdogJudge, ARankWhoseNewsAreOlderThanTheWaitIsSilent) {
  // Rank 0 has waited since 100 s. Ranks 1 and 2 told at the start of the job that they will send messages every 2 s.
  RankState states[3];
  for (int rank = 0; rank < 3; ++rank) {
    states[rank].rank = rank;
    states[rank].known.emplace();
    states[rank].known->period_s = 2;
    states[rank].known->activity.limit_s = 3;
    states[rank].known->activity.waits = 1;
    states[rank].known->activity.number = 12;
  }
  states[0].known->period_s = 0.375;
  states[0].known->activity.number = 957;
  states[0].known->activity.for_s = 2.7;
  states[0].heard_s = 102.7;
  states[1].heard_s = 99.9;
  states[2].heard_s = 100.1;
  const std::string reason = stalled(states, 102.7, 0).reason;
  EXPECT_NE(reason.find("for rank 1 (silent since: waiting in"), std::string::npos) << reason;
  EXPECT_EQ(reason.find("rank 2"), std::string::npos) << reason;
}

}  // namespace
}  // namespace floodtide::comm
