// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "floodtide/segment/seeds.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Return all voxels that can be seeds, in order of falling intensity, and equal ones in order of falling z, y, x. Needs 32
/// bytes for each of them. Source: google/ffn, seed.PolicyMax, whose order of equal voxels is not defined.
[[nodiscard]] std::vector<Vec3> brightest_seeds(const SeedSearch& search);

}  // namespace floodtide::segment
