// SPDX-License-Identifier: Apache-2.0
// Schedules: the steps of one rank in a collective, planned before it begins. Each step sends one range of an array and
// receives another. One executor runs all schedules. Steps, messages and bytes can be counted from a schedule, and a network
// model can simulate it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
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

/// A rank, the number of ranks, and their nodes.
struct RankPlace {
  int rank = 0;
  int size = 1;
  std::span<const int> nodes{};  ///< node index of each rank, from 0 without gaps; empty: all ranks are on one node
};

/// Cost of a schedule for one rank.
struct ScheduleCost {
  int steps = 0;                ///< number of steps; each takes at least one message latency
  std::int64_t messages = 0;    ///< messages sent
  std::int64_t bytes = 0;       ///< bytes sent
  std::int64_t reductions = 0;  ///< elements combined with arriving elements
};

/// Return the cost of a schedule for one rank.
///
/// @param wire_bytes bytes of an element in a message (2 for bf16)
/// @param segment    largest number of elements in a message, at least 1 (Error(out_of_range) otherwise)
[[nodiscard]] ScheduleCost cost(const MessageSchedule& schedule, std::size_t wire_bytes, std::int64_t segment);

/// Ranks that fill one node after the other.
struct RanksOnNodes {
  int ranks = 1;
  int per_node = 1;  ///< ranks of a full node, at most `ranks`
};

/// Equal rounds of messages of a collective, as a model of the network sees them: in each round, all ranks send at the same
/// time.
struct MessageRounds {
  int count = 1;        ///< number of rounds, one after another
  double bytes = 0.0;   ///< bytes that a rank sends in a round at most; a fraction where chunks are not whole
  bool reduce = false;  ///< the arriving values are combined with those of the rank
  int leaving = 0;      ///< ranks of one node that send to other nodes at the same time; 0: all messages stay in their node
};

/// Return the rounds of an allreduce of `bytes` bytes; none for one rank.
///
/// Throws Error(invalid_argument) for an unknown algorithm, a negative or infinite number of bytes, and less than one rank or
/// rank of a node. Throws Error(unsupported) for `mpi`, whose steps the library chooses.
[[nodiscard]] std::vector<MessageRounds> allreduce_rounds(std::string_view algorithm, double bytes, const RanksOnNodes& ranks);

/// Return the schedule of one rank for an allreduce of `count` elements.
///
/// Throws Error(invalid_argument) for an unknown algorithm, and Error(unsupported) for `mpi`, whose steps the library chooses.
/// Throws Error(out_of_range) for a wrong rank, size or count, and Error(shape_mismatch) if `nodes` does not have `size`
/// entries.
[[nodiscard]] MessageSchedule allreduce_schedule(std::string_view algorithm, const RankPlace& place, std::int64_t count);

}  // namespace floodtide::comm
