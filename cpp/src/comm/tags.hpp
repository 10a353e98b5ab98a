// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// Notices of collectives (notice.hpp), in the order of the collectives.
inline constexpr int kNoticeTag = kFirstCollectiveTag;
/// So many collectives may be in flight on a communicator; each has a tag of its own, so that they cannot mix.
inline constexpr int kMostOperations = 1024;

/// The tag of a communicator's n-th collective.
[[nodiscard]] constexpr int operation_tag(std::int64_t number) {
  return kNoticeTag + 1 + static_cast<int>(number % kMostOperations);
}
static_assert(kNoticeTag + kMostOperations <= kLastTag);

}  // namespace floodtide::comm
