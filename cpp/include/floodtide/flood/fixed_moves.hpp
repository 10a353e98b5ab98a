// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::flood {

/// Return the offsets that the `fixed` policy visits in one example: the centre, then all positions one step away along any
/// combination of axes (26 of them, fewer where a delta is 0).
/// Source: google/ffn's fixed_offsets.
[[nodiscard]] std::vector<Vec3> fixed_moves(const Vec3& deltas);

/// Draw the order of all moves but the first from (seed, stream). google/ffn draws it once a process; here every example has
/// its own order. Does not allocate.
void shuffle_moves(std::span<Vec3> moves, std::uint64_t seed, std::uint64_t stream);

}  // namespace floodtide::flood
