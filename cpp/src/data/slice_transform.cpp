// SPDX-License-Identifier: Apache-2.0
#include "data/slice_transform.hpp"

#include <cmath>
#include <numbers>

#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

/// Calls visit(y, x, flat index of the sample's pixel) with the place in the slice that each pixel of the sample shows.
template <class Visit>
void for_each_place(const SliceTransform& transform, const Shape<2>& slice, const Shape<2>& sample, const Visit& visit) {
  const double middle_y = 0.5 * static_cast<double>(sample[0] - 1);
  const double middle_x = 0.5 * static_cast<double>(sample[1] - 1);
  const double from_y = static_cast<double>((slice[0] - sample[0]) / 2) + middle_y;
  const double from_x = static_cast<double>((slice[1] - sample[1]) / 2) + middle_x;
  const double cos = std::cos(transform.angle_rad) / transform.scale;
  const double sin = std::sin(transform.angle_rad) / transform.scale;
  const double sign_y = transform.flip_y ? -1 : 1;
  const double sign_x = transform.flip_x ? -1 : 1;
  std::int64_t flat = 0;
  for (std::int64_t y = 0; y < sample[0]; ++y) {
    const double dy = static_cast<double>(y) - middle_y;
    for (std::int64_t x = 0; x < sample[1]; ++x) {
      const double dx = static_cast<double>(x) - middle_x;
      visit(from_y + sign_y * (cos * dy + sin * dx), from_x + sign_x * (cos * dx - sin * dy), flat++);
    }
  }
}

double between(double low, double high, double uniform) { return low + (high - low) * uniform; }

void require_range(const char* name, double value, double low, double high, const char* expected) {
  FLOODTIDE_REQUIRE(value >= low && value <= high, invalid_argument, "augmentation: ", name, " is ", value, ", expected ",
                    expected);
}

}  // namespace

void require_valid(const SliceAugmentation& augmentation) {
  constexpr double kLarge = 1e6;
  require_range("rotation_deg", augmentation.rotation_deg, 0, 180, "0 to 180");
  require_range("scale", augmentation.scale, 0, kLarge, "0 (off) or more, for factors from 1 / (1 + scale) to 1 + scale");
  require_range("gain", augmentation.gain, 0, std::nextafter(1.0, 0.0), "0 (off) or more, below 1");
  require_range("offset", augmentation.offset, 0, kLarge, "0 (off) or more");
  require_range("noise", augmentation.noise, 0, kLarge, "0 (off) or more");
}

SliceTransform draw_transform(const SliceAugmentation& augmentation, Philox& random) {
  SliceTransform transform;
  transform.flip_y = random.below(2) == 1 && augmentation.flip_y;
  transform.flip_x = random.below(2) == 1 && augmentation.flip_x;
  const double largest_rad = augmentation.rotation_deg * std::numbers::pi / 180;
  transform.angle_rad = between(-largest_rad, largest_rad, random.uniform());
  const double largest_log = std::log1p(augmentation.scale);
  transform.scale = std::exp(between(-largest_log, largest_log, random.uniform()));
  transform.gain = between(1 - augmentation.gain, 1 + augmentation.gain, random.uniform());
  transform.offset = between(-augmentation.offset, augmentation.offset, random.uniform());
  return transform;
}

void transform_image(const SliceTransform& transform, View<const float, 2> slice, float outside, View<float, 2> out_image) {
  const std::int64_t rows = slice.shape(0);
  const std::int64_t columns = slice.shape(1);
  const auto pixel = [&](std::int64_t y, std::int64_t x) {
    return y >= 0 && y < rows && x >= 0 && x < columns ? slice.data()[y * columns + x] : outside;
  };
  for_each_place(transform, slice.shape(), out_image.shape(), [&](double y, double x, std::int64_t flat) {
    const double floor_y = std::floor(y);
    const double floor_x = std::floor(x);
    const auto above = static_cast<std::int64_t>(floor_y);
    const auto left = static_cast<std::int64_t>(floor_x);
    const auto down = static_cast<float>(y - floor_y);
    const auto right = static_cast<float>(x - floor_x);
    const float upper = pixel(above, left) * (1 - right) + pixel(above, left + 1) * right;
    const float lower = pixel(above + 1, left) * (1 - right) + pixel(above + 1, left + 1) * right;
    out_image.data()[flat] = upper * (1 - down) + lower * down;
  });
}

void transform_mask(const SliceTransform& transform, View<const std::int64_t, 2> mask, View<std::uint8_t, 2> out_mask) {
  for_each_place(transform, mask.shape(), out_mask.shape(), [&](double y, double x, std::int64_t flat) {
    const auto row = static_cast<std::int64_t>(std::floor(y + 0.5));
    const auto column = static_cast<std::int64_t>(std::floor(x + 0.5));
    const bool inside = row >= 0 && row < mask.shape(0) && column >= 0 && column < mask.shape(1);
    out_mask.data()[flat] = inside ? static_cast<std::uint8_t>(mask(row, column)) : std::uint8_t{0};
  });
}

}  // namespace floodtide::data
