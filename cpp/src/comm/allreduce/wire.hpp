// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/base/error.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {

inline void require_wire(const char* operation, Wire wire, ReduceType type) {
  FLOODTIDE_REQUIRE(wire == Wire::native || type == ReduceType::float32, invalid_argument, operation, ": the wire format ",
                    name(wire), " is for float32, got ", name(type));
}

}  // namespace floodtide::comm
