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
[[nodiscard]] Schedule ring_phase(const Communicator& comm, std::span<const std::int64_t> blocks, int first, bool reduce);

/// A broadcast. Ranks are counted from the root; in the round of distance d the first d have the data and hand it to the next
/// d.
[[nodiscard]] Schedule binomial_tree(const Communicator& comm, std::int64_t bytes, int root);

}  // namespace floodtide::comm
