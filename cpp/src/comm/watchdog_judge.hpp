// SPDX-License-Identifier: Apache-2.0
// What a watchdog concludes from what the ranks tell: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "floodtide/comm/activity.hpp"

namespace floodtide::comm {

/// What a rank tells. Travels as it is.
struct Beat {
  double period_s = 0;      // until the next one
  std::int64_t leaves = 0;  // 1: this rank starts no collective any more
  Activity activity;
};

/// The last that is known of a rank.
struct RankState {
  int rank = 0;
  std::optional<Beat> known;
  double heard_s = 0;
};

/// Empty, or why the job should end because a rank is silent. `limit_s` is the watching rank's own limit. `judge`: the
/// rank is heard of even after it has left.
[[nodiscard]] std::string silence(const RankState& state, double now_s, double limit_s, bool judge);

/// "; rank 0 waits in collective 5, barrier" for the rank that has been waiting longest, empty if none waits.
[[nodiscard]] std::string who_waits(std::span<const RankState> ranks, double now_s);

struct Verdict {
  std::string reason = {};  ///< which rank waits for which; empty: none does for long
  bool ends = false;        ///< it has waited for too long
  std::string wait = {};    ///< equal for the same wait
};

/// Whether a rank waits for longer than it may, or than `warn_s` (0: no matter), and for which ranks. All ranks' states.
[[nodiscard]] Verdict stalled(std::span<const RankState> ranks, double now_s, double warn_s);

}  // namespace floodtide::comm
