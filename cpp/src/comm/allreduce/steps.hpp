// SPDX-License-Identifier: Apache-2.0
// What the algorithms write their schedules with.
#pragma once

#include <span>

#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

inline bool empty(const Range& range) { return range.begin == range.end; }

/// Adds a step unless it has nothing to say: in a reduction both sides know that an empty range travels as no message.
inline void add_step(MessageSchedule& schedule, MessageStep step) {
  if (empty(step.sent)) step.send_to = kNobody;
  if (empty(step.received)) step.receive_from = kNobody;
  if (step.send_to != kNobody || step.receive_from != kNobody) schedule.steps.push_back(step);
}

/// Some ranks of a communicator that reduce a range of the array among themselves.
struct Group {
  std::span<const int> ranks;  ///< of the communicator
  int own = 0;                 ///< this rank's place among them

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  [[nodiscard]] int rank(int place) const { return ranks[static_cast<std::size_t>(place)]; }
};

/// Appends a Rabenseifner allreduce of `range` over a group (rabenseifner.cpp).
void append_rabenseifner(MessageSchedule& schedule, const Group& group, const Range& range);

}  // namespace floodtide::comm
