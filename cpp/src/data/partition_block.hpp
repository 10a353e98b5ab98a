// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// For each threshold (0 to 1) the smallest number of voxels out of `box_voxels` whose fraction (in double) is not below it.
[[nodiscard]] std::vector<std::int64_t> threshold_counts(std::span<const double> thresholds, std::int64_t box_voxels);

/// Partitions of the inner part of a block: `objects` (z, y, x) reaches `radius` voxels beyond it on every side and holds
/// numbers from 0 (background) to `object_count`. The result has shape objects.shape - 2 * radius.
[[nodiscard]] Tensor<std::uint8_t, 3> partition_block(View<const std::uint32_t, 3> objects, std::uint32_t object_count,
                                                      const Vec3& radius, std::span<const std::int64_t> threshold_counts);

}  // namespace floodtide::data
