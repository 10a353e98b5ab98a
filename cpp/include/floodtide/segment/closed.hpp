// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::segment {

/// Why a voxel is closed: bits of a mask [z, y, x] of the image.
enum Closed : std::uint8_t {
  kClosedToMoves = 1,    ///< no field of view is centred here, and no object started
  kClosedToSeeds = 2,    ///< no object is started here
  kClosedBySegment = 4,  ///< a segment of the initial segmentation has the voxel. Only seed policies look at this bit
  kClosedByShift = 8,    ///< as kClosedToMoves, but seed policies do not look at this bit
};

}  // namespace floodtide::segment
