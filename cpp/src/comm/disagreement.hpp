// SPDX-License-Identifier: Apache-2.0
// What ranks that have started different collectives tell each other, so that all of them throw the same line.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/notice.hpp"

namespace floodtide::comm {

/// A rank's account of what it has started; travels as it is.
struct Account {
  Notice notice;
  std::array<char, 200> words{};  ///< the caller's, cut to what fits, with a final zero
};
static_assert(sizeof(Account) == 256);

[[nodiscard]] Account account_of(const Notice& notice, std::string_view words);

/// "collective 17 differs between ranks: ranks 0, 2 called allreduce (sum of float32 (2, 3)); rank 1 called barrier".
/// The same on all ranks.
[[nodiscard]] std::string disagreement(std::int64_t number, std::span<const Account> accounts);

}  // namespace floodtide::comm
