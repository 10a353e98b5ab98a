// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace floodtide::comm {

/// Ranks in increasing order as a message names them: "rank 3" or "ranks 0, 2, 5-9".
[[nodiscard]] std::string name_ranks(std::span<const int> ranks);

}  // namespace floodtide::comm
