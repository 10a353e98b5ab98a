// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::flood {

/// Return the offsets that the `fixed` policy visits in one example: the centre, then all positions one step away along any
/// combination of axes (26 positions, or fewer if a delta is 0).
/// Source: google/ffn's fixed_offsets.
[[nodiscard]] std::vector<Vec3> fixed_moves(const Vec3& deltas);

/// Shuffle all moves except the first, with random numbers from (seed, stream). google/ffn shuffles once per process; here each
/// example has its own order. Does not allocate.
void shuffle_moves(std::span<Vec3> moves, std::uint64_t seed, std::uint64_t stream);

}  // namespace floodtide::flood
