// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/base/specification.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Return the peaks of the distance to the nearest image edge, ordered by z, y, x.
///
/// Edges are voxels whose Sobel magnitude is larger than its local mean (Gaussian, sigma 49/6). Peaks are at least 4 voxels
/// apart along one axis, and at least 3 voxels from the border. A fixed noise below 1e-4 breaks ties. An image without edges,
/// such as a constant image, has no seeds. Excluded voxels count as edges, and are never peaks. The policy has no parameters.
/// Source: google/ffn, seed.PolicyPeaks.
[[nodiscard]] std::vector<Vec3> peak_seeds(View<const float, 3> image, View<const std::uint8_t, 3> excluded,
                                           const ParameterValues& values, const Progress& progress);

/// As `peak_seeds`, but each plane z is a separate image, and all planes have the same noise. A peak is the maximum of all
/// voxels of its plane within `peaks2d_min_distance`, and more than `peaks2d_threshold_abs` voxels from the nearest edge. A
/// plane without edges has no seeds. Source: google/ffn, seed.PolicyPeaks2d.
[[nodiscard]] std::vector<Vec3> planar_peak_seeds(View<const float, 3> image, View<const std::uint8_t, 3> excluded,
                                                  const ParameterValues& values, const Progress& progress);

}  // namespace floodtide::segment
