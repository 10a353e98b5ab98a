// SPDX-License-Identifier: Apache-2.0
// Schedules: the steps of one rank in a collective, planned before it begins. Each step sends one range of an array and
// receives another. One executor runs all schedules.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "floodtide/base/parallel.hpp"

namespace floodtide::comm {

inline constexpr int kNobody = -1;

/// One exchange with at most two peers. Each step sees the array as the steps before have left it.
struct MessageStep {
  int send_to = kNobody;        ///< rank, or kNobody
  Range sent{0, 0};             ///< elements to send; an empty range is an empty message
  int receive_from = kNobody;   ///< rank, or kNobody
  Range received{0, 0};         ///< elements that the arriving message replaces, or is combined with
  bool reduce = false;          ///< true: combine the arriving values with `received`; false: replace `received`
  bool arriving_first = false;  ///< the arriving values are the left operand (matters for min and max of 0 and -0)
  bool keep = false;  ///< `sent` is part of this rank's result: a narrow wire format must round it as it rounds the message
};

struct MessageSchedule {
  std::vector<MessageStep> steps;
};
using SharedSchedule = std::shared_ptr<const MessageSchedule>;

/// A rank, the number of ranks, and their nodes.
struct RankPlace {
  int rank = 0;
  int size = 1;
  std::span<const int> nodes{};  ///< node index of each rank, from 0 without gaps; empty: all ranks are on one node
};

}  // namespace floodtide::comm
