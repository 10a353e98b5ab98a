// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "floodtide/segment/seeds.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

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

}  // namespace floodtide::segment
