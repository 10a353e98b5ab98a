// SPDX-License-Identifier: Apache-2.0
// What a rank does in a collective, written down before it begins: a list of steps, each of which sends one range of an array
// and takes in another. One executor runs every schedule, blocking or not; steps, messages and bytes are counted from it; and
// a model of a network can walk through it without running anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "floodtide/base/parallel.hpp"

namespace floodtide::comm {

inline constexpr int kNobody = -1;

/// One exchange with at most two peers. Steps take effect in order: a step sees the array as the steps before it left it.
struct MessageStep {
  int send_to = kNobody;       ///< rank, or kNobody
  Range sent{0, 0};            ///< elements; an empty range is an empty message
  int receive_from = kNobody;  ///< rank, or kNobody
  Range received{0, 0};
  bool reduce = false;          ///< combine what arrives with `received`, instead of replacing it
  bool arriving_first = false;  ///< what arrives is the left operand (of consequence for min and max of 0 and -0)
  bool keep = false;  ///< `sent` stays part of this rank's result, so that it must be what the receiver reads: rounded like it
};

struct MessageSchedule {
  std::vector<MessageStep> steps;
};

/// Where a rank stands.
struct RankPlace {
  int rank = 0;
  int size = 1;
  std::span<const int> nodes{};  ///< number of the node of each rank, from 0 without gaps; empty: all on one node
};

/// What a rank pays for a schedule.
struct ScheduleCost {
  int steps = 0;                ///< with at least one message sent or received: message latencies
  std::int64_t messages = 0;    ///< sent
  std::int64_t bytes = 0;       ///< sent
  std::int64_t reductions = 0;  ///< elements combined with arriving ones
};

/// wire_bytes of an element as it travels (2 for bf16); messages of at most segment elements (at least one).
[[nodiscard]] ScheduleCost cost(const MessageSchedule& schedule, std::size_t wire_bytes, std::int64_t segment);

/// The schedule of a rank for an allreduce of `count` elements. Throws Error(invalid_argument) for an unknown algorithm and
/// Error(unsupported) for `mpi`, whose steps are the library's.
[[nodiscard]] MessageSchedule allreduce_schedule(std::string_view algorithm, const RankPlace& place, std::int64_t count);

}  // namespace floodtide::comm
