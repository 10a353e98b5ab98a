// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {

/// Time our own algorithms, and return the table of rank 0 on every rank. Collective. Call this after all ranks have agreed on
/// the measurement (Collective::measure).
[[nodiscard]] AllreduceTable measured_table(Communicator& comm);

}  // namespace floodtide::comm
