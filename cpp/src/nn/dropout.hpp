// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "nn/grid.hpp"

namespace floodtide::nn {

/// Set a share of the values of an activation to zero, and multiply the other values by 1 / (1 - share).
///
/// The choice depends only on (seed, number of the example, position in the image). The backward pass is the same function,
/// applied to the gradients.
///
/// @param examples one number per image of the grid
/// Source: Srivastava et al., JMLR 15 (2014).
void apply_dropout(const Grid& grid, std::int64_t channels, double share, std::uint64_t seed,
                   std::span<const std::uint64_t> examples, float* activation);

}  // namespace floodtide::nn
