// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/base/specification.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Voxels of cubic grids with `grid_step` voxels between neighbours: the grid from voxel 0 first, then those that are shifted
/// along all axes by 1/2, 1/4, 3/4, 1/8, 5/8 and 7/8 of the step. Each grid is ordered by z, y, x. Seeds depend on the image's
/// shape alone.
/// Source: google/ffn, seed.PolicyGrid3d, whose shifts these are at a step of 16.
[[nodiscard]] std::vector<Vec3> grid_seeds(View<const float, 3> image, const ParameterValues& values, const Progress& progress);

}  // namespace floodtide::segment
