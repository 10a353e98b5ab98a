// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// Collective: what has to be added to this rank's monotonic clock to get rank 0's, in nanoseconds. Of twenty exchanges of
/// messages the fastest counts, whose half way is the error at most. Source: Cristian, Distributed Computing 3 (1989), 146-158.
[[nodiscard]] std::int64_t clock_offset_ns(Communicator& comm);

}  // namespace floodtide::comm
