// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/segment/result.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Give voxels of label 0 the id of a segment that they touch, `steps` times. Voxels touch if they share a face. Of several
/// segments, that with the smallest id takes the voxel. A voxel therefore depends on voxels at most `steps` away only.
///
/// @param labels [z, y, x] ids from 1; 0: no segment
void grow(Tensor<std::int32_t, 3>& labels, std::int64_t steps);
/// Grow the segments of a result, and count the voxels of their origins again. Probabilities of further voxels stay 0.
void grow(Result& result, std::int64_t steps);

}  // namespace floodtide::segment
