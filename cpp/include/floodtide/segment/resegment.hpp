// SPDX-License-Identifier: Apache-2.0
// Pairwise resegmentation: two segments are erased and flooded again from inside each of them. If both floodings find the same
// object, the segments belong together. Source: google/ffn, resegmentation.py and resegmentation_analysis.py; Januszewski et
// al., "High-precision automated reconstruction of neurons with flood-filling networks", 2018 (agglomeration).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "floodtide/segment/flooder.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// How a pair is flooded again. Vectors are (z, y, x).
struct ResegmentOptions {
  Vec3 analysis_radius{34, 34, 34};     ///< scores count voxels within this distance of the decision point, along each axis
  Vec3 exclusion_radius{8, 8, 8};       ///< no second seed within this distance of the first
  std::optional<Vec3> point_exclusion;  ///< no seed within this distance of the decision point
  std::int64_t attempts = 1;            ///< seeds that are tried in a segment
  double recovery = 0.6;                ///< a flooding must find this share of its segment; else the next seed is tried
  std::array<double, 3> voxel_size{1, 1, 1};
  bool terminate_early = true;  ///< leave out the second flooding if the first has not found both segments
};

/// What the flooding from one of the segments has found, within the analysis radius.
struct Regrown {
  Vec3 start{};               ///< the last seed
  std::int64_t attempts = 0;  ///< seeds that were tried
  bool recovered = false;     ///< the object has enough of the segment of its seed
  std::int64_t voxels = 0;    ///< voxels of the object: probability of at least 0.5
  std::int64_t deleted = 0;   ///< voxels that were object for a while
  double share_of_a = 0.0;    ///< share of segment a that the object has
  double share_of_b = 0.0;
  double max_distance = 0.0;  ///< largest distance in the object to its surface, in the unit of the voxel size
};

/// Scores of a pair of segments, within the analysis radius.
struct PairScores {
  std::int64_t voxels_a = 0, voxels_b = 0;
  double max_distance_a = 0.0, max_distance_b = 0.0;  ///< largest distance in the segment to its surface
  std::optional<Regrown> from_a, from_b;              ///< no value: there is no place for a seed, or it was left out
  std::optional<double> iou;                          ///< voxels of both objects / voxels of either; no value without both
  std::int64_t network_calls = 0;
};

/// Flood two segments again.
///
/// Both are erased; all other segments are obstacles. The seed in a segment is the voxel farthest from its surface at which a
/// field of view fits (the first of several). If the object does not have `recovery` of its segment, further seeds are tried.
///
/// @param flooder new, with the image around the decision point
/// @param labels  [z, y, x] the segmentation of the image without its halo
/// @param point   the decision point, in voxels of `labels`
/// Throws Error(invalid_argument) if a segment has no voxel within the analysis radius, Error(shape_mismatch) if `labels` does
/// not have the size of the image, and Error(out_of_range) if `point` is outside of it.
[[nodiscard]] PairScores resegment_pair(Flooder& flooder, View<const std::uint64_t, 3> labels, std::uint64_t a, std::uint64_t b,
                                        const Vec3& point, const ResegmentOptions& options);

}  // namespace floodtide::segment
