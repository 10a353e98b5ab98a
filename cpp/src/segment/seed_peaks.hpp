// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/base/specification.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Voxels farthest from image edges: the peaks, at least 4 voxels apart and 3 from the border, of the distance to the nearest
/// edge, where edges are voxels whose Sobel magnitude exceeds its local mean (Gaussian, sigma 49/6). A fixed noise below
/// 1e-4 breaks ties. Ordered by z, y, x. An image without edges (a constant one) has no seeds.
/// There are no parameters.
/// Source: google/ffn, seed.PolicyPeaks.
[[nodiscard]] std::vector<Vec3> peak_seeds(View<const float, 3> image, const ParameterValues& values, const Progress& progress);

}  // namespace floodtide::segment
