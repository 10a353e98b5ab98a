// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Labels the pieces of mask != 0 that hang together over voxel faces.
///
/// @param mask     [z, y, x]; at most 2^31 - 1 voxels
/// @param min_size pieces of fewer voxels get label 0
/// @return labels [z, y, x]: 0 outside the mask, pieces from 1 on in the order of their first voxels (row-major).
/// Allocates 16 bytes a voxel. Throws Error(unsupported) for larger masks.
[[nodiscard]] Tensor<std::int32_t, 3> connected_components(View<const std::uint8_t, 3> mask, std::int64_t min_size = 1);

}  // namespace floodtide::segment
