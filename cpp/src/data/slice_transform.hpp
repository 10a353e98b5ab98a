// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "floodtide/base/random.hpp"
#include "floodtide/data/slices.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Map from the pixels of a sample to a slice. The window of the sample lies in the middle of the slice. If one row more is cut
/// off or padded on one side, this is the end. The pixel at d = (y, x) from the middle of the window shows the slice at
/// F R d / scale from the middle, with R d = (cos y + sin x, -sin y + cos x). F reverses the flipped axes.
struct SliceTransform {
  bool flip_y = false;
  bool flip_x = false;
  double angle_rad = 0;
  double scale = 1;  ///< magnification
  double gain = 1;   ///< normalised intensities become gain * value + offset
  double offset = 0;
};

/// Throws Error(invalid_argument) for a value outside its range.
void require_valid(const SliceAugmentation& augmentation);

/// Draw a random transform. Every call draws the same number of random numbers, so that an option does not change the random
/// numbers of the others.
[[nodiscard]] SliceTransform draw_transform(const SliceAugmentation& augmentation, Philox& random);

/// Transform the image, with linear interpolation between four pixels. Pixels outside the slice have the value `outside`.
///
/// @param slice     [y, x] intensities
/// @param out_image [y, x] of the sample's size
void transform_image(const SliceTransform& transform, View<const float, 2> slice, float outside, View<float, 2> out_image);

/// Transform the mask: the class of the nearest pixel, and 0 outside the slice.
///
/// @param mask     [y, x] classes below 256
/// @param out_mask [y, x]
void transform_mask(const SliceTransform& transform, View<const std::int64_t, 2> mask, View<std::uint8_t, 2> out_mask);

/// Add independent normal numbers with this standard deviation: four from each block of random bits (Box-Muller in float, at
/// most 6.8 standard deviations).
void add_noise(double deviation, Philox& random, std::span<float> values);

}  // namespace floodtide::data
