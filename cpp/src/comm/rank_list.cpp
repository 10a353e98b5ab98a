// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/rank_list.hpp"

#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

constexpr std::size_t kLongestRun = 3;  // longer runs of ranks are written as a range

}  // namespace

std::string name_ranks(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    const bool is_run = end - i > kLongestRun;
    if (!is_run) end = i + 1;
    text += str_cat(i == 0 ? "" : ", ", ranks[i]);
    if (is_run) text += str_cat("-", ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace floodtide::comm
