// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Reduce-scatter inside of each node, Rabenseifner across nodes on a shard, allgather inside of each node. With g ranks on the
/// smallest node, each of the first g ranks of a node sends about 2 n / g bytes to other nodes and the others none.
[[nodiscard]] MessageSchedule two_level_schedule(const RankPlace& place, std::int64_t count);

}  // namespace floodtide::comm
