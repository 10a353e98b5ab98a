// SPDX-License-Identifier: Apache-2.0
// Helpers for the algorithms that make schedules.
#pragma once

#include <span>

#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Appends a step without messages for empty ranges, or no step if both ranges are empty. Sender and receiver know that a range
/// is empty.
inline void add_step(MessageSchedule& schedule, MessageStep step) {
  if (step.sent.empty()) step.send_to = kNobody;
  if (step.received.empty()) step.receive_from = kNobody;
  if (step.send_to != kNobody || step.receive_from != kNobody) schedule.steps.push_back(step);
}

/// Some ranks of a communicator, which reduce a range of the array together.
struct Group {
  std::span<const int> ranks;  ///< ranks in the communicator
  int own = 0;                 ///< index of this rank in `ranks`

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  [[nodiscard]] int rank(int place) const { return ranks[static_cast<std::size_t>(place)]; }
};

/// Appends a Rabenseifner allreduce of `range` over a group (rabenseifner.cpp).
void append_rabenseifner(MessageSchedule& schedule, const Group& group, const Range& range);
}  // namespace floodtide::comm
