// SPDX-License-Identifier: Apache-2.0
#include "train/replicas.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/rank_list.hpp"

namespace floodtide::train {
namespace {

constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15ULL;  // odd, so that multiplication is one-to-one
constexpr std::size_t kLanes = 8;                         // independent chains, because a product takes several cycles
constexpr std::int64_t kPiece = 256 * 1024;               // bytes
constexpr std::size_t kHashes = 3;
constexpr std::array<const char*, kHashes> kNames = {"other parameters", "other averaged parameters",
                                                     "another optimizer state"};

/// Combine a hash with a word. The function is one-to-one in `hash` and in `word`, so that two chains that differ in one word
/// have different results.
constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) { return std::rotl((hash ^ word) * kFactor, 29); }

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

std::uint64_t hash_of_piece(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, kLanes> lanes{};
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lane * kFactor;
  constexpr std::size_t kBlock = kLanes * sizeof(std::uint64_t);
  std::size_t at = 0;
  for (; at + kBlock <= bytes.size(); at += kBlock) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = mixed(lanes[lane], word_at(bytes.data() + at + lane * sizeof(std::uint64_t)));
    }
  }
  std::uint64_t hash = bytes.size();
  for (const std::uint64_t lane : lanes) hash = mixed(hash, lane);
  for (; at < bytes.size(); ++at) hash = mixed(hash, static_cast<std::uint64_t>(bytes[at]));
  return hash;
}

std::array<std::uint64_t, kHashes> listed(const ReplicaHashes& hashes) {
  return {hashes.parameters, hashes.average, hashes.optimizer};
}

}  // namespace

std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t start) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  const std::int64_t pieces = (size + kPiece - 1) / kPiece;
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(pieces));
  parallel_for(pieces, [&](std::int64_t piece) {
    const std::int64_t begin = piece * kPiece;
    hashes[static_cast<std::size_t>(piece)] =
        hash_of_piece(bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(std::min(kPiece, size - begin))));
  });
  std::uint64_t hash = mixed(start, bytes.size());
  for (const std::uint64_t piece : hashes) hash = mixed(hash, piece);
  return hash;
}

void require_equal(comm::Communicator& communicator, const ReplicaHashes& hashes, std::int64_t step) {
  const std::array<std::uint64_t, kHashes> own = listed(hashes);
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
  for (std::size_t rank = 0; rank < all.size(); ++rank) ranks_with[word_at(all[rank].data())].push_back(static_cast<int>(rank));
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
                          str_cat("train: ", comm::name_ranks(others), others.size() == 1 ? " holds " : " hold ", kNames[part],
                                  " than ", comm::name_ranks(most->second), " after step ", step, "; they are not saved"),
                          others.front());
}

}  // namespace floodtide::train
