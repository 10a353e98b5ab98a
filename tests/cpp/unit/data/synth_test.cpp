// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/synth.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "floodtide/base/parallel.hpp"
#include "unit/data/files.hpp"

namespace floodtide::data {
namespace {

constexpr Vec3 kShape{48, 56, 64};

/// Return mean and standard deviation of the voxels for which `wanted` is true.
template <class Wanted>
std::pair<double, double> statistics(const SynthVolume& volume, const Wanted& wanted) {
  double count = 0;
  double sum = 0;
  double squares = 0;
  for (std::int64_t z = 4; z < kShape[0] - 4; ++z) {
    for (std::int64_t y = 4; y < kShape[1] - 4; ++y) {
      for (std::int64_t x = 4; x < kShape[2] - 4; ++x) {
        if (!wanted(z, y, x)) continue;
        const double value = volume.image.view()(z, y, x);
        ++count;
        sum += value;
        squares += value * value;
      }
    }
  }
  return {sum / count, std::sqrt(squares / count - sum * sum / (count * count))};
}

TEST(Synth, IsAPureFunctionOfShapeAndSeedWhateverTheThreads) {
  const int threads = num_threads();
  set_num_threads(1);
  const SynthVolume one = make_synthetic_volume({kShape, 3});
  set_num_threads(3);
  const SynthVolume three = make_synthetic_volume({kShape, 3});
  set_num_threads(threads);
  EXPECT_TRUE(std::ranges::equal(one.image.span(), three.image.span()));
  EXPECT_TRUE(std::ranges::equal(one.labels.span(), three.labels.span()));
  const SynthVolume other = make_synthetic_volume({kShape, 4});
  EXPECT_FALSE(std::ranges::equal(one.labels.span(), other.labels.span()));
}

TEST(Synth, IsPackedWithCellsOfManySizes) {
  const SynthVolume volume = make_synthetic_volume({kShape, 1});
  std::map<std::int64_t, std::int64_t> sizes;
  for (const std::int64_t label : volume.labels.span()) ++sizes[label];
  EXPECT_EQ(sizes.begin()->first, 0);  // membranes
  EXPECT_LT(sizes[0], volume.labels.size() / 2);
  sizes.erase(0);
  EXPECT_GE(sizes.size(), 10U);
  std::int64_t largest = 0;
  for (const auto& [label, size] : sizes) largest = std::max(largest, size);
  EXPECT_LT(largest, volume.labels.size() / 2);
}

TEST(Synth, FacesBetweenCellsAreDarkerThanInsidesByAFewTimesTheNoise) {
  const SynthVolume volume = make_synthetic_volume({kShape, 2});
  const auto same_around = [&](std::int64_t z, std::int64_t y, std::int64_t x, std::int64_t reach) {
    for (std::int64_t d = -reach; d <= reach; ++d) {
      const std::int64_t label = volume.labels.view()(z, y, x);
      if (volume.labels.view()(z + d, y, x) != label || volume.labels.view()(z, y + d, x) != label ||
          volume.labels.view()(z, y, x + d) != label) {
        return false;
      }
    }
    return true;
  };
  const auto faces = statistics(volume, [&](auto z, auto y, auto x) { return volume.labels.view()(z, y, x) == 0; });
  const auto insides =
      statistics(volume, [&](auto z, auto y, auto x) { return volume.labels.view()(z, y, x) > 0 && same_around(z, y, x, 3); });
  // Mitochondria increase the standard deviation inside cells. Faces are blurred over both of their voxels.
  EXPECT_GT(insides.first - faces.first, 0.7 * insides.second);
  EXPECT_LT(insides.first - faces.first, 5 * insides.second);
  EXPECT_NEAR(insides.first, 140, 20);
}

TEST(Synth, RefusesShapesThatAreTooSmall) {
  expect_error([] { static_cast<void>(make_synthetic_volume({{7, 20, 20}, 0})); }, ErrorCode::invalid_argument,
               {"(7, 20, 20)", "8"});
}

}  // namespace
}  // namespace floodtide::data
