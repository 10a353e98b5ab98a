// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Return the connected components of mask != 0. Voxels are connected if they share a face.
///
/// @param mask     [z, y, x]; at most 2^31 - 1 voxels (Error(unsupported) otherwise)
/// @param min_size components with fewer voxels get label 0
/// @return labels [z, y, x]: 0 outside the mask; components are numbered from 1, by their first voxels in row-major order
/// Memory use: 16 bytes per voxel.
[[nodiscard]] Tensor<std::int32_t, 3> connected_components(View<const std::uint8_t, 3> mask, std::int64_t min_size = 1);

}  // namespace floodtide::segment
