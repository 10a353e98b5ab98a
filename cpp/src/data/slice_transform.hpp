// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "floodtide/base/random.hpp"
#include "floodtide/data/slices.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// How the pixels of a sample are taken from a slice. The window of the sample lies in the middle of the slice (an odd row
/// more is cut off, or put, at the end). A pixel at d = (y, x) from the window's middle shows the slice at
/// F R d / scale from there, with R d = (cos y + sin x, -sin y + cos x) and F reversing the flipped axes.
struct SliceTransform {
  bool flip_y = false;
  bool flip_x = false;
  double angle_rad = 0;
  double scale = 1;  ///< above 1 magnifies
  double gain = 1;   ///< normalised intensities become gain * value + offset
  double offset = 0;
};

/// Throws Error(invalid_argument) for a value out of range.
void require_valid(const SliceAugmentation& augmentation);

/// Every call draws the same amount of numbers, so that one option does not change what the others do.
[[nodiscard]] SliceTransform draw_transform(const SliceAugmentation& augmentation, Philox& random);

/// The image, linear between the four pixels around each place; places outside the slice count as `outside`.
///
/// @param slice     [y, x] intensities
/// @param out_image [y, x] of the sample's size
void transform_image(const SliceTransform& transform, View<const float, 2> slice, float outside, View<float, 2> out_image);

/// The mask, with the class of the nearest pixel and 0 outside the slice.
///
/// @param mask     [y, x] classes below 256
/// @param out_mask [y, x]
void transform_mask(const SliceTransform& transform, View<const std::int64_t, 2> mask, View<std::uint8_t, 2> out_mask);

/// Adds independent normal numbers of this standard deviation: four from each block of random bits (Box-Muller in float, cut
/// off at 6.8 standard deviations).
void add_noise(double deviation, Philox& random, std::span<float> values);

}  // namespace floodtide::data
