// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>

#include "segment/seed_policies.hpp"

namespace floodtide::segment {
namespace {

/// Shifts of a grid in eighths of its step. With a step below 8 some are equal, and stand once.
std::vector<std::int64_t> shifts_of(std::int64_t step, std::initializer_list<std::int64_t> eighths) {
  std::vector<std::int64_t> shifts;
  for (const std::int64_t count : eighths) {
    const std::int64_t shift = count * step / 8;
    if (std::ranges::find(shifts, shift) == shifts.end()) shifts.push_back(shift);
  }
  return shifts;
}

void add_plane(std::int64_t z, std::int64_t shift, std::int64_t step, const Shape<3>& shape, std::vector<Vec3>& seeds) {
  for (std::int64_t y = shift; y < shape[1]; y += step) {
    for (std::int64_t x = shift; x < shape[2]; x += step) seeds.push_back({z, y, x});
  }
}

}  // namespace

std::vector<Vec3> grid_seeds(const SeedSearch& search) {
  const auto step = static_cast<std::int64_t>(number(search.values, "grid_step"));
  std::vector<Vec3> seeds;
  for (const std::int64_t shift : shifts_of(step, {0, 4, 2, 6, 1, 5, 7})) {
    for (std::int64_t z = shift; z < search.image.shape(0); z += step) add_plane(z, shift, step, search.image.shape(), seeds);
  }
  return seeds;
}

std::vector<Vec3> planar_grid_seeds(const SeedSearch& search) {
  const auto step = static_cast<std::int64_t>(number(search.values, "grid2d_step"));
  std::vector<Vec3> seeds;
  for (const std::int64_t shift : shifts_of(step, {0, 4, 2, 6, 1, 3, 5, 7})) {
    for (std::int64_t z = 0; z < search.image.shape(0); ++z) add_plane(z, shift, step, search.image.shape(), seeds);
  }
  return seeds;
}

}  // namespace floodtide::segment
