// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Recursive halving and doubling: 2 log2 p steps and 2 n (p - 1) / p bytes for powers of two; otherwise 2 floor(log2 p) + 2
/// steps and at most 5 n / 2 - 2 n / 2^floor(log2 p) bytes.
[[nodiscard]] MessageSchedule rabenseifner_schedule(const RankPlace& place, std::int64_t count);

}  // namespace floodtide::comm
