// SPDX-License-Identifier: Apache-2.0
#include "segment/filters.hpp"
#include "data/distance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::segment {
namespace {

Tensor<std::uint8_t, 3> random_mask(const Vec3& shape, double share, std::uint64_t seed) {
  Tensor<std::uint8_t, 3> mask(shape);
  Philox random(seed, 0);
  for (std::uint8_t& voxel : mask.span()) voxel = random.uniform() < share ? 1 : 0;
  return mask;
}

std::int32_t nearest(View<const std::uint8_t, 3> mask, const Vec3& from) {
  std::int64_t best = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t z = 0; z < mask.shape(0); ++z) {
    for (std::int64_t y = 0; y < mask.shape(1); ++y) {
      for (std::int64_t x = 0; x < mask.shape(2); ++x) {
        if (mask(z, y, x) == 0) continue;
        const std::int64_t dz = z - from[0], dy = y - from[1], dx = x - from[2];
        best = std::min(best, dz * dz + dy * dy + dx * dx);
      }
    }
  }
  return static_cast<std::int32_t>(best);
}

TEST(SquaredDistance, EqualsTheDefinition) {
  std::uint64_t seed = 0;
  for (const Vec3& shape : {Vec3{1, 1, 9}, Vec3{7, 1, 1}, Vec3{5, 6, 7}, Vec3{9, 3, 12}, Vec3{2, 13, 4}}) {
    for (const double share : {0.02, 0.1, 0.6}) {
      Tensor<std::uint8_t, 3> mask = random_mask(shape, share, ++seed);
      mask.data()[mask.size() / 2] = 1;
      const Tensor<std::int32_t, 3> distance = data::squared_distance(mask.view());
      for (std::int64_t z = 0; z < shape[0]; ++z) {
        for (std::int64_t y = 0; y < shape[1]; ++y) {
          for (std::int64_t x = 0; x < shape[2]; ++x) {
            ASSERT_EQ(distance.view()(z, y, x), nearest(mask.view(), {z, y, x})) << z << ' ' << y << ' ' << x;
          }
        }
      }
    }
  }
}

TEST(SquaredDistance, CountsTheEdgesOfVoxels) {
  std::uint64_t seed = 100;
  for (const std::array<double, 3>& size : {std::array{40.0, 4.0, 4.0}, std::array{1.0, 3.0, 2.0}, std::array{8.0, 8.0, 8.0}}) {
    for (const double share : {0.02, 0.3}) {
      const Vec3 shape{6, 9, 11};
      Tensor<std::uint8_t, 3> mask = random_mask(shape, share, ++seed);
      mask.data()[mask.size() / 2] = 1;
      const Tensor<double, 3> distance = data::squared_distance(mask.view(), size);
      for (std::int64_t i = 0; i < mask.size(); ++i) {
        double best = std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j < mask.size(); ++j) {
          if (mask.data()[j] == 0) continue;
          const double z = size[0] * static_cast<double>(i / 99 - j / 99);
          const double y = size[1] * static_cast<double>(i / 11 % 9 - j / 11 % 9);
          const double x = size[2] * static_cast<double>(i % 11 - j % 11);
          best = std::min(best, z * z + y * y + x * x);
        }
        ASSERT_EQ(distance.data()[i], best) << i;
      }
    }
  }
}

TEST(SquaredDistance, IsMinusOneWithoutAnyMask) {
  const Tensor<std::int32_t, 3> distance = data::squared_distance(Tensor<std::uint8_t, 3>({2, 3, 4}).view());
  EXPECT_EQ(std::count(distance.span().begin(), distance.span().end(), -1), 24);
}

TEST(SquaredDistance, RefusesSidesWhoseDistancesDoNotFit) {
  EXPECT_THROW(static_cast<void>(data::squared_distance(Tensor<std::uint8_t, 3>({26755, 1, 1}).view())), Error);
}

TEST(Filters, DoNotDependOnTheNumberOfThreads) {
  Tensor<float, 3> image({9, 17, 11});
  Philox random(5, 0);
  for (float& voxel : image.span()) voxel = static_cast<float>(random.normal());
  set_num_threads(1);
  const Tensor<float, 3> one = gaussian_filter(sobel_magnitude(image.view(), kVolume).view(), 2.0, kVolume);
  set_num_threads(3);
  const Tensor<float, 3> three = gaussian_filter(sobel_magnitude(image.view(), kVolume).view(), 2.0, kVolume);
  EXPECT_TRUE(std::equal(one.span().begin(), one.span().end(), three.span().begin()));
}

TEST(Filters, FlatImagesHaveNoGradientAndStayFlat) {
  Tensor<float, 3> image({4, 5, 6});
  std::fill(image.span().begin(), image.span().end(), 0.25F);
  const Tensor<float, 3> gradient = sobel_magnitude(image.view(), kVolume);
  for (const float value : gradient.span()) EXPECT_EQ(value, 0.0F);
  // The sum of the 67 weights is 1 within the rounding error of double, which is far below that of float.
  const Tensor<float, 3> smooth = gaussian_filter(image.view(), 49.0 / 6.0, kVolume);
  for (const float value : smooth.span()) EXPECT_EQ(value, 0.25F);
}

}  // namespace
}  // namespace floodtide::segment
