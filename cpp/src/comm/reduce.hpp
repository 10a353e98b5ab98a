// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// inout[i] = op(inout[i], other[i]). `other` holds as many elements as `inout`; they do not overlap.
void reduce_into(const ReduceBuffer& inout, const std::byte* other, ReduceOp op);

}  // namespace floodtide::comm
