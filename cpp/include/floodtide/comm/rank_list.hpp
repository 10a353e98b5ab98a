// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace floodtide::comm {

/// Return ranks as text for a message: "rank 3" or "ranks 0, 2, 5-9". `ranks` is in increasing order.
[[nodiscard]] std::string name_ranks(std::span<const int> ranks);

}  // namespace floodtide::comm
