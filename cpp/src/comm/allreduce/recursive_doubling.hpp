// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Return the steps of recursive doubling: log2 p steps if p is a power of two, otherwise floor(log2 p) + 2 steps. Each step
/// sends n bytes.
[[nodiscard]] MessageSchedule recursive_doubling_schedule(const RankPlace& place, std::int64_t count);

}  // namespace floodtide::comm
