// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Return the exact squared Euclidean distance of every voxel to the nearest voxel with mask != 0, in voxels. Return -1
/// where there is no such voxel. With `planes`, only voxels of the same plane z count. Throws
/// Error(unsupported) if a side is longer than 26,754 voxels, because squared distances do not fit into 32 bits.
/// Source: Meijster et al., "A general algorithm for computing distance transforms in linear time", 2000.
[[nodiscard]] Tensor<std::int32_t, 3> squared_distance(View<const std::uint8_t, 3> mask, bool planes = false);

/// As above, for voxels with edges of `voxel_size` (z, y, x), in the square of its unit and without limit of the sides. Exact
/// if the squared edges are integers.
[[nodiscard]] Tensor<double, 3> squared_distance(View<const std::uint8_t, 3> mask, const std::array<double, 3>& voxel_size);

}  // namespace floodtide::data
