// SPDX-License-Identifier: Apache-2.0
// Schedules of all collectives except allreduce.
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Return one phase of a ring over the blocks of the ranks. In step s, rank r sends block r - first - s and receives block
/// r - first - s - 1. With first = 0 and without `reduce`, the phase is an allgather.
[[nodiscard]] SharedSchedule ring_phase(const RankPlace& place, std::span<const std::int64_t> blocks, int first, bool reduce);

/// Return the schedule of a broadcast. Ranks count from the root. In the round of distance d, the first d ranks have the data
/// and send it to the next d ranks.
[[nodiscard]] SharedSchedule binomial_tree(const Communicator& comm, std::int64_t bytes, int root);

/// Return the schedule of an alltoall. In step s, rank r sends a block to rank r + s and receives a block from rank r - s. No
/// two ranks therefore send to the same rank in a step. `sent` has the limits of the blocks in Payload::source, and `received`
/// those in Payload::data. The block of a rank for itself is not sent.
[[nodiscard]] SharedSchedule pairwise(const Communicator& comm, std::span<const std::int64_t> sent,
                                      std::span<const std::int64_t> received);

}  // namespace floodtide::comm
