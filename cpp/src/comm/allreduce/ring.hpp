// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// Collective: ring allreduce, in place. Messages of at most segment_bytes (at least one element).
void ring_allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, std::size_t segment_bytes);

}  // namespace floodtide::comm
