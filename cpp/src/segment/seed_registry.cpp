// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "floodtide/base/error.hpp"
#include "floodtide/segment/seeds.hpp"
#include "segment/seed_policies.hpp"

namespace floodtide::segment {

std::span<const SeedPolicyRow> seed_policy_rows() {
  static const SeedPolicyRow rows[] = {
      {"peaks",
       "PolicyPeaks",
       &peak_seeds,
       {},
       "peaks of the distance from image edges, sorted by z, y, x (PolicyPeaks of google/ffn)"},
      {"peaks2d",
       "PolicyPeaks2d",
       &planar_peak_seeds,
       {{"peaks2d_min_distance",
         ValueKind::integer,
         7.0,
         "voxels",
         "a seed is the peak of all voxels of its plane within this distance along y and x",
         {1, 1024}},
        {"peaks2d_threshold_abs",
         ValueKind::real,
         2.5,
         "voxels",
         "a seed is farther than this from the nearest edge",
         {0, 1e6}}},
       "the same in each plane z alone, for anisotropic voxels (PolicyPeaks2d of google/ffn)"},
      {"grid",
       "PolicyGrid3d",
       &grid_seeds,
       {{"grid_step", ValueKind::integer, 16.0, "voxels", "distance between neighbouring voxels of a grid", {1, 4096}}},
       "voxels of a regular grid, then of shifted grids, independent of the image (PolicyGrid3d of google/ffn)"},
      {"grid2d",
       "PolicyGrid2d",
       &planar_grid_seeds,
       {{"grid2d_step", ValueKind::integer, 16.0, "voxels", "distance between neighbouring voxels of a grid", {1, 4096}}},
       "voxels of a regular grid in each plane z, then of shifted grids (PolicyGrid2d of google/ffn)"},
      {"max", "PolicyMax", &brightest_seeds, {}, "all voxels in order of falling intensity (PolicyMax of google/ffn)", 80},
      {"max_peaks",
       "PolicyMaxPeaks",
       &intensity_peak_seeds,
       {},
       "peaks of the intensity above `mean`, sorted by z, y, x (PolicyMaxPeaks of google/ffn)"},
      {"dense",
       "PolicyDenseSeeds",
       &dense_seeds,
       {{"dense_threshold", ValueKind::real, 0.5, "", "seeds are normalised intensities above this", {-1e6, 1e6}},
        {"dense_num_erosions",
         ValueKind::integer,
         0.0,
         "",
         "how often voxels beside others that are no seeds are left out",
         {0, 1024}},
        {"dense_invert", ValueKind::boolean, 0.0, "", "take the voxels that are not above the threshold", {}}},
       "all voxels above a threshold, after erosions, sorted by z, y, x (PolicyDenseSeeds of google/ffn)",
       80},
      {"image_peaks",
       "PolicyImagePeaks3D2D",
       &image_peak_seeds,
       {{"image_peaks_min_distance_2d",
         ValueKind::integer,
         2.0,
         "voxels",
         "distance between peaks of a plane z; -1: none",
         {-1, 1024}},
        {"image_peaks_min_distance_3d",
         ValueKind::integer,
         4.0,
         "voxels",
         "distance between peaks of the volume; -1: none",
         {-1, 1024}}},
       "peaks of the intensity in the volume, then in each plane z, the brightest first (PolicyImagePeaks3D2D of google/ffn)",
       160},
      {"disk_peaks",
       "PolicyImagePeaks2DDisk",
       &disk_peak_seeds,
       {{"disk_peaks_min_distance_2d", ValueKind::integer, 3.0, "voxels", "distance between peaks", {0, 1024}},
        {"disk_peaks_threshold_rel",
         ValueKind::real,
         0.5,
         "",
         "a peak is above this share of the largest intensity of its plane",
         {-1e6, 1e6}},
        {"disk_peaks_disk_radius",
         ValueKind::integer,
         1.0,
         "voxels",
         "a peak is the maximum of a disk of this radius",
         {0, 1024}}},
       "peaks of the intensity in each plane z, the brightest first (PolicyImagePeaks2DDisk of google/ffn)"},
      {"fill_empty",
       "PolicyFillEmptySpace",
       &empty_space_seeds,
       {},
       "peaks of the distance from the segments of `initial`, sorted by z, y, x (PolicyFillEmptySpace of google/ffn)"},
  };
  return rows;
}

std::vector<Vec3> find_seeds(std::string_view name, const ParameterValues& values, View<const float, 3> image,
                             View<const std::uint8_t, 3> closed, const Vec3& margin, const Progress& progress) {
  FLOODTIDE_REQUIRE(!image.empty(), shape_mismatch, "segment: the image has ", Show{image.shape()},
                    " voxels (z, y, x), expected at least one");
  FLOODTIDE_REQUIRE(closed.size() == 0 || closed.shape() == image.shape(), shape_mismatch, "segment: the mask has ",
                    Show{closed.shape()}, " voxels (z, y, x), the image ", Show{image.shape()});
  const auto rows = seed_policy_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [name](const SeedPolicyRow& r) { return r.name == name; });
  FLOODTIDE_REQUIRE(row != rows.end(), invalid_argument, "segment: unknown seed policy '", name, "'");
  const ParameterValues resolved = resolve(str_cat("seed policy ", name), row->parameters, values);
  std::vector<Vec3> seeds = row->find({image, closed, margin, resolved, progress});
  std::erase_if(seeds, [&](const Vec3& seed) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (seed[axis] < margin[axis] || margin[axis] >= image.shape(axis) - seed[axis]) return true;
    }
    return closed.size() > 0 && (closed.at(seed) & ~kClosedByShift) != 0;
  });
  return seeds;
}

}  // namespace floodtide::segment
