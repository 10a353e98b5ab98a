// SPDX-License-Identifier: Apache-2.0
// Decisions of the watchdog, as pure functions of what the ranks have told.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "floodtide/comm/activity.hpp"

namespace floodtide::comm {

/// Message of a rank to the rank that watches it. The bytes are sent unchanged.
struct Beat {
  double period_s = 0;      // seconds until the next message
  std::int64_t leaves = 0;  // 1: this rank will start no more collectives
  Activity activity;
};

/// What is known of a rank.
struct RankState {
  int rank = 0;
  std::optional<Beat> known;  // the last message
  double heard_s = 0;         // time of the last message
  double left_s = 0;          // time of the message that this rank has left, if it has
};

/// Return why the job should end because a rank is silent, or an empty text.
///
/// @param limit_s limit of the watching rank, in seconds; 0: none
/// @param judge   true for rank 0, which sends messages even after it has left
[[nodiscard]] std::string silence(const RankState& state, double now_s, double limit_s, bool judge);

/// Return "; rank 0 waits in collective 5, barrier" for the rank that waits longest, or an empty text if no rank waits.
[[nodiscard]] std::string who_waits(std::span<const RankState> ranks, double now_s);

struct Verdict {
  std::string reason = {};  ///< which rank waits for which ranks; empty: no rank waits for long
  bool ends = false;        ///< true: the rank has waited longer than its limit
  std::string wait = {};    ///< text that identifies the wait
};

/// Return whether a rank waits longer than its limit, or longer than `warn_s` (0: ignored), and for which ranks. `ranks` are
/// the states of all ranks.
[[nodiscard]] Verdict stalled(std::span<const RankState> ranks, double now_s, double warn_s);

}  // namespace floodtide::comm
