// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/synth_tubes.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// The cell of every voxel, and the approximate distance in voxels to the nearest other cell.
struct Cells {
  Tensor<std::int64_t, 3> labels;
  Tensor<float, 3> depth;
};

/// Assign each voxel to the tube of the ball with the smallest power distance |v - c|^2 - r^2. Smooth noise displaces the
/// voxels before, so that the faces of cells are uneven. The cells fill the volume. Runs on all threads.
[[nodiscard]] Cells fill_cells(const BallGrid& balls, const Vec3& shape, std::uint64_t seed);

}  // namespace floodtide::data
