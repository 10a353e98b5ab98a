// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Return the steps of a two-level allreduce: reduce-scatter inside each node, Rabenseifner's algorithm across nodes for each
/// shard, and allgather inside each node. With g ranks on the smallest node, each of the first g ranks of a node sends about
/// 2 n / g bytes to other nodes. Other ranks send nothing to other nodes.
[[nodiscard]] MessageSchedule two_level_schedule(const RankPlace& place, std::int64_t count);

}  // namespace floodtide::comm
