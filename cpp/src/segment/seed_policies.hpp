// SPDX-License-Identifier: Apache-2.0
// The policies of seeds.hpp. They are google/ffn's, voxel for voxel where google/ffn defines the order.
#pragma once

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

/// Return all voxels that can be seeds, in order of falling intensity, and equal ones in order of falling z, y, x. Needs 32
/// bytes for each of them. Source: google/ffn, seed.PolicyMax, whose order of equal voxels is not defined.
[[nodiscard]] std::vector<Vec3> brightest_seeds(const SeedSearch& search);

/// Return the voxels of the normalised image above `dense_threshold`, or with `dense_invert` all others, after
/// `dense_num_erosions` erosions by the six neighbours, ordered by z, y, x. Voxels outside the image erode nothing.
/// Source: google/ffn, seed.PolicyDenseSeeds.
[[nodiscard]] std::vector<Vec3> dense_seeds(const SeedSearch& search);

/// Return the peaks of the intensity: first the peaks of the volume, then the peaks of each plane z. Each search gives the
/// brightest peaks first, and orders equally bright peaks by z, y, x. A peak is the maximum of all voxels within the distance
/// along each axis, above the least intensity, and at least the distance from the border and from brighter peaks. A negative
/// distance: no such search. Source: google/ffn, seed.PolicyImagePeaks3D2D; skimage.feature.peak_local_max.
[[nodiscard]] std::vector<Vec3> image_peak_seeds(const SeedSearch& search);

/// Return the peaks of the intensity in each plane z, as above. A peak is the maximum of a disk, and above
/// `disk_peaks_threshold_rel` times the largest intensity of its plane; the distance between peaks is Euclidean.
/// Source: google/ffn, seed.PolicyImagePeaks2DDisk.
[[nodiscard]] std::vector<Vec3> disk_peak_seeds(const SeedSearch& search);

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
