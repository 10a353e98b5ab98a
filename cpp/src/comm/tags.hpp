// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// Tag of the messages with which ranks compare collectives (agreement.hpp).
inline constexpr int kNoticeTag = kFirstCollectiveTag;
/// Largest number of collectives in flight on a communicator. Each has its own tag, so that their messages cannot mix.
inline constexpr int kMostOperations = 1024;

/// Return the tag of the n-th collective of a communicator.
[[nodiscard]] constexpr int operation_tag(std::int64_t number) {
  return kNoticeTag + 1 + static_cast<int>(number % kMostOperations);
}
static_assert(kNoticeTag + kMostOperations <= kLastTag);

}  // namespace floodtide::comm
