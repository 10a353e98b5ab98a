// SPDX-License-Identifier: Apache-2.0
// Descriptions that ranks exchange if they have started different collectives, so that all ranks throw the same message.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/notice.hpp"

namespace floodtide::comm {

/// Description of what one rank has started. The bytes are sent unchanged.
struct Account {
  Notice notice;
  std::array<char, 200> words{};  ///< the caller's words, cut if necessary, with a final zero
};
static_assert(sizeof(Account) == 256);

[[nodiscard]] Account account_of(const Notice& notice, std::string_view words);

/// Return the error message, which is the same on all ranks: "collective 17 differs between ranks: ranks 0, 2 called allreduce
/// (sum of float32 (2, 3)); rank 1 called barrier".
[[nodiscard]] std::string disagreement(std::int64_t number, std::span<const Account> accounts);

}  // namespace floodtide::comm
