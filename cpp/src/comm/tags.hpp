// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

// One tag a collective: messages of two consecutive calls cannot overtake each other, those of different ones cannot mix.
inline constexpr int kBarrierTag = kFirstCollectiveTag;
inline constexpr int kBroadcastTag = kFirstCollectiveTag + 1;
inline constexpr int kAllgatherTag = kFirstCollectiveTag + 2;
inline constexpr int kAllreduceTag = kFirstCollectiveTag + 3;

}  // namespace floodtide::comm
