// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/parameter_specs.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/segment/seeds.hpp"
#include "segment/seed_policies.hpp"

namespace floodtide::segment {

namespace {

/// @param published class of the policy in google/ffn
SeedPolicyRow row(const char* name, const char* published, std::vector<Vec3> (*find)(const SeedSearch&),
                  std::vector<ParameterSpec> parameters, const char* help) {
  return {name, published, find, std::move(parameters), str_cat(help, " (", published, " of google/ffn)")};
}

ParameterSpec voxels(const char* name, double standard, const char* help, Limits limits) {
  return integer(name, standard, help, limits, "voxels");
}

}  // namespace

std::span<const SeedPolicyRow> seed_policy_rows() {
  static const SeedPolicyRow rows[] = {
      row("peaks", "PolicyPeaks", &peak_seeds, {}, "peaks of the distance from image edges, sorted by z, y, x"),
      row("peaks2d", "PolicyPeaks2d", &planar_peak_seeds,
          {voxels("peaks2d_min_distance", 7, "a seed is the peak of all voxels of its plane within this distance along y and x",
                  {1, 1024}),
           real("peaks2d_threshold_abs", 2.5, "a seed is farther than this from the nearest edge", {0, 1e6}, "voxels")},
          "the same in each plane z alone, for anisotropic voxels"),
      row("grid", "PolicyGrid3d", &grid_seeds,
          {voxels("grid_step", 16, "distance between neighbouring voxels of a grid", {1, 4096})},
          "voxels of a regular grid, then of shifted grids, independent of the image"),
      row("grid2d", "PolicyGrid2d", &planar_grid_seeds,
          {voxels("grid2d_step", 16, "distance between neighbouring voxels of a grid", {1, 4096})},
          "voxels of a regular grid in each plane z, then of shifted grids"),
      row("max", "PolicyMax", &brightest_seeds, {}, "all voxels in order of falling intensity"),
      row("max_peaks", "PolicyMaxPeaks", &intensity_peak_seeds, {}, "peaks of the intensity above `mean`, sorted by z, y, x"),
      row("dense", "PolicyDenseSeeds", &dense_seeds,
          {real("dense_threshold", 0.5, "seeds are normalised intensities above this", {-1e6, 1e6}),
           integer("dense_num_erosions", 0, "how often voxels beside others that are no seeds are left out", {0, 1024}),
           boolean("dense_invert", "take the voxels that are not above the threshold")},
          "all voxels above a threshold, after erosions, sorted by z, y, x"),
      row("image_peaks", "PolicyImagePeaks3D2D", &image_peak_seeds,
          {voxels("image_peaks_min_distance_2d", 2, "distance between peaks of a plane z; -1: none", {-1, 1024}),
           voxels("image_peaks_min_distance_3d", 4, "distance between peaks of the volume; -1: none", {-1, 1024})},
          "peaks of the intensity in the volume, then in each plane z, the brightest first"),
      row("disk_peaks", "PolicyImagePeaks2DDisk", &disk_peak_seeds,
          {voxels("disk_peaks_min_distance_2d", 3, "distance between peaks", {0, 1024}),
           real("disk_peaks_threshold_rel", 0.5, "a peak is above this share of the largest intensity of its plane",
                {-1e6, 1e6}),
           voxels("disk_peaks_disk_radius", 1, "a peak is the maximum of a disk of this radius", {0, 1024})},
          "peaks of the intensity in each plane z, the brightest first"),
      row("fill_empty", "PolicyFillEmptySpace", &empty_space_seeds, {},
          "peaks of the distance from the segments of `initial`, sorted by z, y, x"),
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
  const auto found = std::ranges::find(rows, name, &SeedPolicyRow::name);
  FLOODTIDE_REQUIRE(found != rows.end(), invalid_argument, "segment: unknown seed policy '", name, "'");
  const ParameterValues resolved = resolve(str_cat("seed policy ", name), found->parameters, values);
  std::vector<Vec3> seeds = found->find({image, closed, margin, resolved, progress});
  std::erase_if(seeds, [&](const Vec3& seed) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (seed[axis] < margin[axis] || margin[axis] >= image.shape(axis) - seed[axis]) return true;
    }
    return closed.size() > 0 && (closed.at(seed) & ~kClosedByShift) != 0;
  });
  return seeds;
}

}  // namespace floodtide::segment
