// SPDX-License-Identifier: Apache-2.0
// The steps of the collectives that are no allreduce.
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// One phase of a ring over the ranks' blocks: in step s rank r passes block r - first - s on and takes block r - first - s - 1
/// in. With first = 0 and without `reduce` it is an allgather.
[[nodiscard]] MessageSchedule ring_phase(const Communicator& comm, std::span<const std::int64_t> blocks, int first,
                                         bool reduce);

/// A broadcast. Ranks are counted from the root; in the round of distance d the first d have the data and hand it to the next
/// d.
[[nodiscard]] MessageSchedule binomial_tree(const Communicator& comm, std::int64_t bytes, int root);

/// An alltoall: in step s rank r sends its block for rank r + s and takes in that of rank r - s, so that no two send to one at
/// a time. `sent` are blocks of the payload's source, `received` those of its data. A rank's block for itself does not travel.
[[nodiscard]] MessageSchedule pairwise(const Communicator& comm, std::span<const std::int64_t> sent,
                                       std::span<const std::int64_t> received);

}  // namespace floodtide::comm
