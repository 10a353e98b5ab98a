// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "floodtide/segment/seeds.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Return the peaks of the distance to the nearest image edge, ordered by z, y, x.
///
/// Edges are voxels whose Sobel magnitude is larger than its local mean (Gaussian, sigma 49/6). Peaks are at least 4 voxels
/// apart along one axis, and at least 3 voxels from the border. A fixed noise below 1e-4 breaks ties. An image without edges,
/// such as a constant image, has no seeds. Voxels that masks close count as edges. The distance of these voxels and of
/// initial segments is -1. The policy has no parameters. Source: google/ffn, seed.PolicyPeaks.
[[nodiscard]] std::vector<Vec3> peak_seeds(const SeedSearch& search);

/// As `peak_seeds`, but each plane z is a separate image, and all planes have the same noise. A peak is the maximum of all
/// voxels of its plane within `peaks2d_min_distance`, and more than `peaks2d_threshold_abs` voxels from the nearest edge. A
/// plane without edges has no seeds. The policy looks at kClosedToMoves only. Source: google/ffn, seed.PolicyPeaks2d.
[[nodiscard]] std::vector<Vec3> planar_peak_seeds(const SeedSearch& search);

/// Return the intensity peaks, ordered by z, y, x. A peak is brighter than 0, the mean of the normalised image. The distance
/// between peaks and the noise are as in `peak_seeds`. Closed voxels have intensity 0. Source: google/ffn, seed.PolicyMaxPeaks.
[[nodiscard]] std::vector<Vec3> intensity_peak_seeds(const SeedSearch& search);

/// Return the peaks of the distance to the nearest voxel of the initial segmentation, ordered by z, y, x. Peaks are at least 3
/// voxels apart along one axis, and at least 2 voxels from the border. Without segments there are no seeds. The policy does
/// not look at masks. Source: google/ffn, seed.PolicyFillEmptySpace.
[[nodiscard]] std::vector<Vec3> empty_space_seeds(const SeedSearch& search);

}  // namespace floodtide::segment
