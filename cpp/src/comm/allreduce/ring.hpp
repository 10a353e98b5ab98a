// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Return the steps of a ring allreduce: a rank has 2 (p - 1) steps and sends 2 n (p - 1) / p bytes.
[[nodiscard]] MessageSchedule ring_schedule(const RankPlace& place, std::int64_t count);

}  // namespace floodtide::comm
