// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce/body.hpp"

namespace floodtide::comm {

const ReduceLoops kReduceAvx2 = kLoops;

}  // namespace floodtide::comm
