// SPDX-License-Identifier: Apache-2.0
// Global ids for segmentations of overlapping subvolumes, from the voxels that two subvolumes share.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "floodtide/evaluate/contingency.hpp"

namespace floodtide::segment {

/// When two segments of overlapping subvolumes count as one object. Only voxels count that both subvolumes have segmented.
/// They do if enough of each lies in the other one, or if a large one lies inside the other one: where a subvolume
/// has split an object, its part is much smaller than the whole object in the other subvolume.
struct Agreement {
  std::int64_t min_voxels = 1;  ///< voxels in both segments; at least 1
  double min_share = 0.5;       ///< least share of each of the two segments that lies in the other one; above 0, at most 1
  std::int64_t inside_voxels = 5000;  ///< least voxels of a segment that lies inside the other one; 0: none does
};

/// Least share of an inner segment that lies in the outer one.
inline constexpr double kInsideShare = 0.95;
/// Least share of the outer segment that is common. A smaller common part is too weak evidence for one object.
inline constexpr double kInsideOfOther = 0.2;

/// What the overlap of two subvolumes shows.
struct Seam {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> same;  ///< segments (of the first, of the second) that are one object
  std::int64_t split =
      0;  ///< segments of either side, with at least min_voxels voxels, that agree with no segment of the other
};

/// Compare the segments of two subvolumes in their overlap.
/// @param counts voxels of each pair (segment of the first, segment of the second); 0 is no segment
/// Throws Error(invalid_argument) if `rule` is out of range.
[[nodiscard]] Seam compare_overlap(std::span<const evaluate::ContingencyTable::Entry> counts, const Agreement& rule);

}  // namespace floodtide::segment
