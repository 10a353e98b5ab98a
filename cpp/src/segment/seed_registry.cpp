// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "floodtide/base/error.hpp"
#include "floodtide/segment/seeds.hpp"
#include "segment/seed_grid.hpp"
#include "segment/seed_max.hpp"
#include "segment/seed_peaks.hpp"

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
  FLOODTIDE_REQUIRE(closed.size() == 0 || closed.shape() == image.shape(), shape_mismatch, "segment: the mask has ",
                    Show{closed.shape()}, " voxels (z, y, x), the image ", Show{image.shape()});
  const auto rows = seed_policy_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [name](const SeedPolicyRow& r) { return r.name == name; });
  FLOODTIDE_REQUIRE(row != rows.end(), invalid_argument, "segment: unknown seed policy '", name, "'");
  const ParameterValues resolved = resolve(str_cat("seed policy ", name), row->parameters, values);
  std::vector<Vec3> seeds = row->find({image, closed, margin, resolved, progress});
  std::erase_if(seeds, [&](const Vec3& seed) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (seed[axis] < margin[axis] || seed[axis] + margin[axis] >= image.shape(axis)) return true;
    }
    return closed.size() > 0 && (closed.at(seed) & ~kClosedByShift) != 0;
  });
  return seeds;
}

}  // namespace floodtide::segment
