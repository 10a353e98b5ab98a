// SPDX-License-Identifier: Apache-2.0
#include "train/replicas.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::train {

void require_equal(comm::Communicator& communicator, const ReplicaHashes& hashes, std::int64_t step) {
  constexpr std::size_t kHashes = 3;
  const std::array<std::uint64_t, kHashes> own = {hashes.parameters, hashes.average, hashes.optimizer};
  const char* const names[kHashes] = {"other parameters", "other averaged parameters", "another optimizer state"};
  std::array<std::int64_t, 2 * kHashes> bounds{};  // the smallest hash of all ranks, and the complement of the largest
  for (std::size_t i = 0; i < kHashes; ++i) {
    bounds[i] = std::bit_cast<std::int64_t>(own[i]);
    bounds[kHashes + i] = ~bounds[i];
  }
  comm::allreduce(communicator, std::span<std::int64_t>(bounds), comm::ReduceOp::min, "recursive_doubling");
  std::size_t part = 0;
  while (part < kHashes && bounds[part] == ~bounds[kHashes + part]) ++part;
  if (part == kHashes) return;

  std::map<std::uint64_t, std::vector<int>> ranks_with;
  const auto all = comm::allgather(communicator, std::as_bytes(std::span(&own[part], 1)));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::uint64_t hash = 0;
    std::memcpy(&hash, all[rank].data(), sizeof(hash));
    ranks_with[hash].push_back(static_cast<int>(rank));
  }
  // If two groups have the same number of ranks, the group with the lowest rank counts as the majority.
  const auto most = std::ranges::max_element(ranks_with, [](const auto& a, const auto& b) {
    return std::pair(a.second.size(), -a.second.front()) < std::pair(b.second.size(), -b.second.front());
  });
  std::vector<int> others;
  for (const auto& [hash, ranks] : ranks_with) {
    if (hash != most->first) others.insert(others.end(), ranks.begin(), ranks.end());
  }
  std::ranges::sort(others);
  throw comm::AgreedError(ErrorCode::communication,
                          str_cat("train: ", comm::name_ranks(others), others.size() == 1 ? " holds " : " hold ", names[part],
                                  " than ", comm::name_ranks(most->second), " after step ", step, "; they are not saved"),
                          others.front());
}

}  // namespace floodtide::train
