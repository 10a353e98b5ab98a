// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "nn/grid.hpp"

namespace floodtide::nn {

/// Sets a share of an activation's values to zero and multiplies the others by 1 / (1 - share). What is dropped is a function
/// of (seed, number of the example, place in the image) alone; applied to gradients it is its own backward pass.
///
/// @param examples one number for each image of the grid
/// Source: Srivastava et al., JMLR 15 (2014).
void apply_dropout(const Grid& grid, std::int64_t channels, double share, std::uint64_t seed,
                   std::span<const std::uint64_t> examples, float* activation);

}  // namespace floodtide::nn
