// SPDX-License-Identifier: Apache-2.0
#include "data/slice_transform.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "support/tolerance.hpp"
#include "unit/data/files.hpp"

namespace floodtide::data {
namespace {

struct Slice {
  Shape<2> shape;
  std::vector<float> image;
  std::vector<std::int64_t> mask;

  explicit Slice(const Shape<2>& size) : shape(size) {
    Philox random(3, static_cast<std::uint64_t>(100 * size[0] + size[1]));
    for (std::int64_t i = 0; i < volume<2>(size); ++i) {
      image.push_back(static_cast<float>(random.below(256)));
      mask.push_back(static_cast<std::int64_t>(random.below(4)));
    }
  }
  [[nodiscard]] std::vector<float> transformed(const SliceTransform& transform, const Shape<2>& size, float outside = 9) const {
    std::vector<float> out(static_cast<std::size_t>(volume<2>(size)), -1);
    transform_image(transform, {image.data(), shape}, outside, {out.data(), size});
    return out;
  }
  [[nodiscard]] std::vector<std::uint8_t> transformed_mask(const SliceTransform& transform, const Shape<2>& size) const {
    std::vector<std::uint8_t> out(static_cast<std::size_t>(volume<2>(size)), 77);
    transform_mask(transform, {mask.data(), shape}, {out.data(), size});
    return out;
  }
  [[nodiscard]] double value(std::int64_t y, std::int64_t x, double outside) const {
    const bool inside = y >= 0 && y < shape[0] && x >= 0 && x < shape[1];
    return inside ? static_cast<double>(image[static_cast<std::size_t>(y * shape[1] + x)]) : outside;
  }
};

/// Return the position in the slice that pixel (y, x) of the sample shows, computed in double with matrices from the definition
/// in slice_transform.hpp.
std::array<double, 2> place(const SliceTransform& t, const Shape<2>& slice, const Shape<2>& sample, double y, double x) {
  const std::array<double, 2> middle{0.5 * static_cast<double>(sample[0] - 1), 0.5 * static_cast<double>(sample[1] - 1)};
  const std::array<double, 2> d{y - middle[0], x - middle[1]};
  const double flip[2][2] = {{t.flip_y ? -1.0 : 1.0, 0}, {0, t.flip_x ? -1.0 : 1.0}};
  const double turn[2][2] = {{std::cos(t.angle_rad), std::sin(t.angle_rad)}, {-std::sin(t.angle_rad), std::cos(t.angle_rad)}};
  std::array<double, 2> result{};
  for (std::size_t i = 0; i < 2; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 2; ++j) {
      for (std::size_t k = 0; k < 2; ++k) sum += flip[i][j] * turn[j][k] * d[k];
    }
    result[i] = middle[i] + static_cast<double>((slice[i] - sample[i]) / 2) + sum / t.scale;
  }
  return result;
}

TEST(SliceTransform, IdentityCutsTheCentreOutOrPadsIt) {
  const Slice slice({7, 6});
  const std::vector<float> cut = slice.transformed({}, {4, 3});
  for (std::int64_t y = 0; y < 4; ++y) {
    for (std::int64_t x = 0; x < 3; ++x) {
      EXPECT_EQ(static_cast<double>(cut[static_cast<std::size_t>(y * 3 + x)]), slice.value(y + 1, x + 1, 9));
    }
  }
  const std::vector<float> padded = slice.transformed({}, {10, 6});
  const std::vector<std::uint8_t> mask = slice.transformed_mask({}, {10, 6});
  for (std::int64_t y = 0; y < 10; ++y) {
    for (std::int64_t x = 0; x < 6; ++x) {
      const auto flat = static_cast<std::size_t>(y * 6 + x);
      EXPECT_EQ(static_cast<double>(padded[flat]), slice.value(y - 1, x, 9)) << y << ' ' << x;
      const bool inside = y >= 1 && y < 8;
      EXPECT_EQ(static_cast<std::int64_t>(mask[flat]), inside ? slice.mask[flat - 6] : 0);
    }
  }
}

TEST(SliceTransform, FlipsAndQuarterTurnsMovePixelsExactly) {
  const Slice slice({6, 6});
  SliceTransform flip;
  flip.flip_x = true;
  SliceTransform turn;
  turn.angle_rad = std::numbers::pi / 2;
  const std::vector<float> flipped = slice.transformed(flip, {6, 6});
  const std::vector<std::uint8_t> turned = slice.transformed_mask(turn, {6, 6});
  for (std::int64_t y = 0; y < 6; ++y) {
    for (std::int64_t x = 0; x < 6; ++x) {
      const auto flat = static_cast<std::size_t>(6 * y + x);
      EXPECT_EQ(static_cast<double>(flipped[flat]), slice.value(y, 5 - x, 9));
      EXPECT_EQ(static_cast<std::int64_t>(turned[flat]), slice.mask[static_cast<std::size_t>(6 * x + 5 - y)]);
    }
  }
}

TEST(SliceTransform, ImageIsLinearBetweenPixelsAndMaskTakesTheNearest) {
  SliceAugmentation augmentation;
  augmentation.flip_y = augmentation.flip_x = true;
  augmentation.rotation_deg = 180;
  augmentation.scale = 0.5;
  Philox random(11, 0);
  std::int64_t outside_pixels = 0;
  for (const auto& [from, to] : {std::pair<Shape<2>, Shape<2>>{{13, 17}, {13, 17}}, {{16, 9}, {11, 20}}, {{1, 5}, {4, 4}}}) {
    const Slice slice(from);
    for (int repeat = 0; repeat < 20; ++repeat) {
      const SliceTransform transform = draw_transform(augmentation, random);
      const std::vector<float> image = slice.transformed(transform, to, 9);
      const std::vector<std::uint8_t> mask = slice.transformed_mask(transform, to);
      for (std::size_t flat = 0; flat < image.size(); ++flat) {
        const auto row = static_cast<double>(static_cast<std::int64_t>(flat) / to[1]);
        const auto column = static_cast<double>(static_cast<std::int64_t>(flat) % to[1]);
        const auto [y, x] = place(transform, from, to, row, column);
        const auto v0 = static_cast<std::int64_t>(y);
        const auto u0 = static_cast<std::int64_t>(x);
        double expected = 0;  // the weight of a pixel is max(0, 1 - distance) along each axis, so that only the nearest count
        for (std::int64_t v = v0 - 3; v <= v0 + 3; ++v) {
          for (std::int64_t u = u0 - 3; u <= u0 + 3; ++u) {
            const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(v) - y)) *
                                  std::max(0.0, 1 - std::abs(static_cast<double>(u) - x));
            expected += weight * slice.value(v, u, 9);
          }
        }
        // Tolerance: three roundings of weights and three of sums, with values up to 255.
        EXPECT_NEAR(static_cast<double>(image[flat]), expected, test::summation_tolerance<float>(6, 2 * 255.0));
        const double near_y = std::round(y);
        const double near_x = std::round(x);
        const double to_tie = std::min(std::abs(std::abs(y - near_y) - 0.5), std::abs(std::abs(x - near_x) - 0.5));
        if (to_tie < 1e-9) continue;  // in a tie, both neighbours are correct
        const auto v = static_cast<std::int64_t>(near_y);
        const auto u = static_cast<std::int64_t>(near_x);
        const bool inside = v >= 0 && v < from[0] && u >= 0 && u < from[1];
        outside_pixels += inside ? 0 : 1;
        EXPECT_EQ(static_cast<std::int64_t>(mask[flat]), inside ? slice.mask[static_cast<std::size_t>(v * from[1] + u)] : 0);
      }
    }
  }
  EXPECT_GT(outside_pixels, 100);
}

TEST(SliceTransform, DrawsStayWithinTheirRanges) {
  SliceAugmentation augmentation;
  augmentation.flip_x = true;
  augmentation.rotation_deg = 15;
  augmentation.scale = 0.25;
  augmentation.gain = 0.1;
  augmentation.offset = 0.2;
  Philox random(1, 2);
  double largest_deg = 0;
  double smallest_scale = 1;
  double largest_scale = 1;
  int flips = 0;
  constexpr int kDraws = 1000;
  for (int i = 0; i < kDraws; ++i) {
    const SliceTransform t = draw_transform(augmentation, random);
    EXPECT_FALSE(t.flip_y);
    flips += t.flip_x ? 1 : 0;
    largest_deg = std::max(largest_deg, std::abs(t.angle_rad) * 180 / std::numbers::pi);
    smallest_scale = std::min(smallest_scale, t.scale);
    largest_scale = std::max(largest_scale, t.scale);
    EXPECT_LE(std::abs(t.gain - 1), 0.1);
    EXPECT_LE(std::abs(t.offset), 0.2);
  }
  EXPECT_GT(flips, kDraws / 3);
  EXPECT_LT(flips, 2 * kDraws / 3);
  EXPECT_LE(largest_deg, 15);
  EXPECT_GT(largest_deg, 14);
  EXPECT_GE(smallest_scale, 0.8);
  EXPECT_LT(smallest_scale, 0.82);
  EXPECT_LE(largest_scale, 1.25);
  EXPECT_GT(largest_scale, 1.22);
}

TEST(SliceTransform, OneOptionDoesNotChangeWhatOthersDraw) {
  SliceAugmentation rotation;
  rotation.rotation_deg = 30;
  SliceAugmentation both = rotation;
  both.flip_y = true;
  both.scale = 0.2;
  both.gain = 0.3;
  Philox a(4, 4);
  Philox b(4, 4);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(draw_transform(rotation, a).angle_rad, draw_transform(both, b).angle_rad);
  EXPECT_EQ(a.counter(), b.counter());
}

TEST(SliceTransform, NoiseIsNormalAndIndependent) {
  constexpr std::size_t kCount = 200001;  // odd, so that only half of the last pair is used
  std::vector<float> noise(kCount, 3);
  Philox random(6, 0);
  add_noise(0.5, random, noise);
  double moments[5] = {};
  double products[5] = {};  // sums of products of values that are `lag` places apart
  for (std::size_t i = 0; i + 5 < kCount; ++i) {
    const auto normal = [&](std::size_t at) { return (static_cast<double>(noise[at]) - 3) / 0.5; };
    for (int power = 1; power < 5; ++power) moments[power] += std::pow(normal(i), power);
    for (std::size_t lag = 1; lag < 5; ++lag) products[lag] += normal(i) * normal(i + lag);
  }
  // Five standard errors, to be multiplied by the square root of the variance of each power: 1, 2, 15 and 96.
  const double error = 5 / std::sqrt(static_cast<double>(kCount));
  const double n = static_cast<double>(kCount - 5);
  EXPECT_NEAR(moments[1] / n, 0, error);
  EXPECT_NEAR(moments[2] / n, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(moments[3] / n, 0, error * std::sqrt(15.0));
  EXPECT_NEAR(moments[4] / n, 3, error * std::sqrt(96.0));
  for (std::size_t lag = 1; lag < 5; ++lag) EXPECT_NEAR(products[lag] / n, 0, error) << lag;
  EXPECT_NE(noise.back(), 3.0F);
}

TEST(SliceTransform, OptionsOutOfRangeAreNamed) {
  const auto refuse = [](double SliceAugmentation::* option, double value, const std::string& name) {
    SliceAugmentation augmentation;
    augmentation.*option = value;
    expect_error([&] { require_valid(augmentation); }, ErrorCode::invalid_argument, {"augmentation", name, "expected"});
  };
  refuse(&SliceAugmentation::rotation_deg, 181, "rotation_deg");
  refuse(&SliceAugmentation::scale, -0.1, "scale");
  refuse(&SliceAugmentation::gain, 1, "gain");
  refuse(&SliceAugmentation::offset, std::nan(""), "offset");
  refuse(&SliceAugmentation::noise, -1, "noise");
}

}  // namespace
}  // namespace floodtide::data
