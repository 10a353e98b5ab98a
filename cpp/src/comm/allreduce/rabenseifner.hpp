// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Return the steps of recursive halving and doubling. If p is a power of two, a rank has 2 log2 p steps and sends
/// 2 n (p - 1) / p bytes. Otherwise it has 2 floor(log2 p) + 2 steps and sends at most 5 n / 2 - 2 n / 2^floor(log2 p) bytes.
[[nodiscard]] MessageSchedule rabenseifner_schedule(const RankPlace& place, std::int64_t count);

}  // namespace floodtide::comm
