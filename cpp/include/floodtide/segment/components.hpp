// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Return the connected components of mask != 0. Voxels are connected if they share a face.
///
/// @param mask     [z, y, x]; at most 2^31 - 1 voxels (Error(unsupported) otherwise)
/// @param min_size components with fewer voxels get label 0
/// @return labels [z, y, x]: 0 outside the mask; components are numbered from 1, by their first voxels in row-major order
/// Memory use: 16 bytes per voxel.
[[nodiscard]] Tensor<std::int32_t, 3> connected_components(View<const std::uint8_t, 3> mask, std::int64_t min_size = 1);

/// Return for each of `count` items the smallest item that it is connected with by `pairs`. The order of pairs does not matter.
/// Throws Error(out_of_range) if a pair names an item that does not exist.
[[nodiscard]] std::vector<std::int64_t> connected(std::int64_t count,
                                                  std::span<const std::pair<std::int64_t, std::int64_t>> pairs);

}  // namespace floodtide::segment
