// SPDX-License-Identifier: Apache-2.0
#include "segment/seed_max.hpp"

#include <algorithm>
#include <cstdint>

namespace floodtide::segment {

std::vector<Vec3> brightest_seeds(const SeedSearch& search) {
  const auto [nz, ny, nx] = search.image.shape();
  const auto [mz, my, mx] = search.margin;
  std::vector<std::int64_t> voxels;
  for (std::int64_t z = mz; z < nz - mz; ++z) {
    for (std::int64_t y = my; y < ny - my; ++y) {
      for (std::int64_t x = mx; x < nx - mx; ++x) {
        const std::int64_t voxel = (z * ny + y) * nx + x;
        if ((search.bits(voxel) & ~kClosedByShift) == 0) voxels.push_back(voxel);
      }
    }
  }
  const float* image = search.image.data();
  std::ranges::sort(voxels,
                    [image](std::int64_t a, std::int64_t b) { return image[a] != image[b] ? image[a] > image[b] : a > b; });
  std::vector<Vec3> seeds;
  seeds.reserve(voxels.size());
  for (const std::int64_t voxel : voxels) seeds.push_back({voxel / (ny * nx), voxel / nx % ny, voxel % nx});
  report(search.progress, 1, 1);
  return seeds;
}

}  // namespace floodtide::segment
