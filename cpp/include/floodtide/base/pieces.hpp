// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "floodtide/base/parallel.hpp"

namespace floodtide {

/// Calls body(begin, end) for pieces of [0, size) with fixed borders, on num_threads() threads, in any order. The pieces do not
/// depend on the number of threads. Does not allocate.
template <class Body>
void for_pieces(std::int64_t size, const Body& body) {
  constexpr std::int64_t kPiece = 1 << 15;
  parallel_for((size + kPiece - 1) / kPiece,
               [&](std::int64_t piece) { body(piece * kPiece, std::min(size, (piece + 1) * kPiece)); });
}

}  // namespace floodtide
