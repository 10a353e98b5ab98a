// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Return, for each threshold (0 to 1), the smallest number of voxels whose share of `box_voxels` (in double) reaches it.
[[nodiscard]] std::vector<std::int64_t> threshold_counts(std::span<const double> thresholds, std::int64_t box_voxels);

/// Compute the partitions of the inner part of a block. `objects` (z, y, x) has numbers from 0 (background) to `object_count`,
/// and extends `radius` voxels beyond the inner part on every side. The result has shape objects.shape - 2 * radius.
[[nodiscard]] Tensor<std::uint8_t, 3> partition_block(View<const std::uint32_t, 3> objects, std::uint32_t object_count,
                                                      const Vec3& radius, std::span<const std::int64_t> threshold_counts);

}  // namespace floodtide::data
