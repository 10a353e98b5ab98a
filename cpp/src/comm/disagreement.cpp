// SPDX-License-Identifier: Apache-2.0
#include "comm/disagreement.hpp"

#include <algorithm>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

constexpr std::size_t kMostGroups = 8;  // largest number of groups in the message
constexpr std::string_view kCut = "...";

/// Ranks that have started the same collective.
struct LikeRanks {
  Notice notice;
  std::string text;
  std::vector<int> ranks;
};

Shown differences(std::span<const Account> accounts, Collective collective) {
  Shown shown;
  const Notice* first = nullptr;
  for (const Account& account : accounts) {
    const Notice& notice = account.notice;
    if (notice.collective != collective) continue;
    if (first == nullptr) first = &notice;
    shown.algorithm = shown.algorithm || notice.algorithm != first->algorithm;
    shown.wire = shown.wire || notice.wire != first->wire;
    shown.segments = shown.segments || notice.segment_bytes != first->segment_bytes;
    shown.blocks = shown.blocks || notice.blocks != first->blocks;
  }
  return shown;
}

std::vector<LikeRanks> groups_of(std::span<const Account> accounts) {
  std::vector<LikeRanks> groups;
  for (std::size_t rank = 0; rank < accounts.size(); ++rank) {
    const Account& account = accounts[rank];
    auto group = std::ranges::find(groups, account.notice, &LikeRanks::notice);
    if (group == groups.end()) {
      const Shown shown = differences(accounts, account.notice.collective);
      group = groups.insert(group, {account.notice, in_words(account.notice, account.words.data(), shown), {}});
    }
    group->ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

}  // namespace

Account account_of(const Notice& notice, std::string_view words) {
  Account account{.notice = notice};
  const std::size_t most = account.words.size() - 1;
  words.copy(account.words.data(), most);
  if (words.size() > most) std::ranges::copy(kCut, account.words.data() + most - kCut.size());
  return account;
}

std::string disagreement(std::int64_t number, std::span<const Account> accounts) {
  const std::vector<LikeRanks> groups = groups_of(accounts);
  std::string line = str_cat("collective ", number, " differs between ranks: ");
  for (std::size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i) {
    const LikeRanks& group = groups[i];
    line += str_cat(i == 0 ? "" : "; ", name_ranks(group.ranks), " called ", group.text);
    // Different collectives may have the same text, if words were cut or do not mention all properties.
    const bool ambiguous = std::ranges::count(groups, group.text, &LikeRanks::text) > 1;
    if (ambiguous) line += str_cat(", as ", describe(group.notice), ", hash ", group.notice.called);
  }
  if (groups.size() > kMostGroups) line += str_cat("; and ", groups.size() - kMostGroups, " more on other ranks");
  return line;
}

}  // namespace floodtide::comm
