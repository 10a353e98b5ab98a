// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/synth_tubes.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Which cell every voxel belongs to, and how far (voxels, about) it is from the next cell.
struct Cells {
  Tensor<std::int64_t, 3> labels;
  Tensor<float, 3> depth;
};

/// Gives each voxel to the tube of the ball that is nearest in power distance |v - c|^2 - r^2, after bending space by smooth
/// noise, so that cells fill the volume and their faces are uneven. On all threads.
[[nodiscard]] Cells fill_cells(const BallGrid& balls, const Vec3& shape, std::uint64_t seed);

}  // namespace floodtide::data
