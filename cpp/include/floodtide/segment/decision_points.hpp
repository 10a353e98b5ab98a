// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Where two segments come closest to each other.
struct DecisionPoint {
  std::uint64_t a, b;  ///< the segments, a < b
  Vec3 position;       ///< a voxel between them, (z, y, x)
  double distance;     ///< about half of the distance between them, in the unit of the voxel size
};

/// Return a decision point for each pair of segments that touch when all segments grow into the empty space at the same speed,
/// ordered by the pair.
///
/// Segments grow by a watershed on the distance to the nearest segment, up to `max_distance`. Two of them touch where
/// neighbouring voxels (26 neighbours) belong to them. Of the places where they touch with the smallest mean distance, the
/// point is the one nearest to their centroid. Source: google/ffn, decision_point.py.
///
/// @param labels       [z, y, x]; 0: empty
/// @param voxel_size   edges of a voxel (z, y, x), above 0
/// @param max_distance in the unit of `voxel_size`; may be infinite
/// @param within       only points in this box; neighbours may lie outside of it
/// Memory use: 25 bytes a voxel.
[[nodiscard]] std::vector<DecisionPoint> decision_points(View<const std::uint64_t, 3> labels,
                                                         const std::array<double, 3>& voxel_size, double max_distance,
                                                         const Box& within);

}  // namespace floodtide::segment
