// SPDX-License-Identifier: Apache-2.0
#include "segment/seed_grid.hpp"

#include <algorithm>
#include <array>

namespace floodtide::segment {
namespace {

constexpr std::array<std::int64_t, 7> kEighths{0, 4, 2, 6, 1, 5, 7};  // shifts in eighths of a step

}  // namespace

std::vector<Vec3> grid_seeds(View<const float, 3> image, View<const std::uint8_t, 3>, const ParameterValues& values,
                             const Progress&) {
  const auto step = static_cast<std::int64_t>(number(values, "grid_step"));
  std::vector<Vec3> seeds;
  std::vector<std::int64_t> shifts;
  for (const std::int64_t eighths : kEighths) {
    const std::int64_t shift = eighths * step / 8;
    if (std::ranges::find(shifts, shift) != shifts.end()) continue;  // with a step below 8, some shifts are equal
    shifts.push_back(shift);
    for (std::int64_t z = shift; z < image.shape(0); z += step) {
      for (std::int64_t y = shift; y < image.shape(1); y += step) {
        for (std::int64_t x = shift; x < image.shape(2); x += step) seeds.push_back({z, y, x});
      }
    }
  }
  return seeds;
}

}  // namespace floodtide::segment
