// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::flood {

/// The offsets that the `fixed` policy visits in one example: the centre, then all positions one step away along any
/// combination of axes (26 of them, fewer where a delta is 0) in an order drawn from (seed, stream).
/// Source: google/ffn's fixed_offsets, whose order is drawn once a process; here every example has its own.
[[nodiscard]] std::vector<Vec3> fixed_moves(const Vec3& deltas, std::uint64_t seed, std::uint64_t stream);

}  // namespace floodtide::flood
