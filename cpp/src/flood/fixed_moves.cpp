// SPDX-License-Identifier: Apache-2.0
#include "floodtide/flood/fixed_moves.hpp"

#include <algorithm>
#include <utility>

#include "floodtide/base/random.hpp"

namespace floodtide::flood {

std::vector<Vec3> fixed_moves(const Vec3& deltas) {
  std::vector<Vec3> moves{{0, 0, 0}};
  for (const std::int64_t z : {-1, 0, 1}) {
    for (const std::int64_t y : {-1, 0, 1}) {
      for (const std::int64_t x : {-1, 0, 1}) {
        const Vec3 move{z * deltas[0], y * deltas[1], x * deltas[2]};
        if (std::ranges::find(moves, move) == moves.end()) moves.push_back(move);
      }
    }
  }
  return moves;
}

void shuffle_moves(std::span<Vec3> moves, std::uint64_t seed, std::uint64_t stream) {
  Philox random(seed, stream);
  for (std::size_t left = moves.size() - 1; left > 1; --left) {  // Fisher-Yates shuffle of all moves except the centre
    std::swap(moves[left], moves[1 + random.below(left)]);
  }
}

}  // namespace floodtide::flood
