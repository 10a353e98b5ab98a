// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// Tag of the messages with which ranks compare collectives (agreement.hpp).
inline constexpr int kNoticeTag = kFirstCollectiveTag;
/// Number of tags of collectives. Collectives in flight on a communicator have different tags, so that their messages cannot
/// mix.
inline constexpr int kMostOperations = 1024;

/// Return the tag of the n-th collective of a communicator.
[[nodiscard]] constexpr int operation_tag(std::int64_t number) {
  return kNoticeTag + 1 + static_cast<int>(number % kMostOperations);
}
static_assert(kNoticeTag + kMostOperations <= kLastTag);

}  // namespace floodtide::comm
