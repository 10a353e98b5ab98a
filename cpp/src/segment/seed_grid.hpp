// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "floodtide/segment/seeds.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Return the voxels of several cubic grids with step `grid_step`. Seeds depend on the shape of the image only.
///
/// The first grid starts at voxel 0. The further grids are shifted along all axes by 1/2, 1/4, 3/4, 1/8, 5/8 and 7/8 of the
/// step. Each grid is ordered by z, y, x. Source: google/ffn, seed.PolicyGrid3d, which has these shifts for a step of 16.
[[nodiscard]] std::vector<Vec3> grid_seeds(const SeedSearch& search);

/// Return the voxels of several square grids with step `grid2d_step` in each plane z. As above, but shifts along y and x only,
/// by 0, 1/2, 1/4, 3/4, 1/8, 3/8, 5/8 and 7/8 of the step. Source: google/ffn, seed.PolicyGrid2d.
[[nodiscard]] std::vector<Vec3> planar_grid_seeds(const SeedSearch& search);

}  // namespace floodtide::segment
