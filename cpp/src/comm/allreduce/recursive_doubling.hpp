// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Recursive doubling: log2 p steps for powers of two, floor(log2 p) + 2 otherwise; n bytes a step.
[[nodiscard]] MessageSchedule recursive_doubling_schedule(const RankPlace& place, std::int64_t count);

}  // namespace floodtide::comm
