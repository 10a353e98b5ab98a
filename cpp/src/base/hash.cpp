// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/hash.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "floodtide/base/parallel.hpp"

namespace floodtide {
namespace {

constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15ULL;  // odd, so that multiplication is one-to-one
constexpr std::size_t kLanes = 8;                         // independent chains, because a product takes several cycles
constexpr std::int64_t kPiece = 256 * 1024;               // bytes

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

}  // namespace

std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t start) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  const std::int64_t pieces = (size + kPiece - 1) / kPiece;
  if (pieces <= 1) return mixed(mixed(start, bytes.size()), hash_of_piece(bytes));  // without an allocation
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

}  // namespace floodtide
