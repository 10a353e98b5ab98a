// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {

/// Collective: times our own algorithms, after all ranks have agreed on it. Returns rank 0's choice on every rank.
[[nodiscard]] AllreduceTable measured_table(Communicator& comm);

}  // namespace floodtide::comm
