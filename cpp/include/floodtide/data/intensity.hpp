// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/base/random.hpp"
#include "floodtide/data/augmentation.hpp"
#include "floodtide/data/deformation.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Random changes of the intensities of one example, in the order in which apply() makes them.
struct Intensities {
  double blur = 0;   ///< standard deviation in the plane
  double gamma = 1;  ///< (value - low) / (high - low) of each channel is raised to this exponent
  double gain = 1;
  double offset = 0;
  double noise = 0;
  /// A section becomes gain * section + offset, is blurred, or is black.
  struct Section {
    double blur = 0;
    double gain = 1;
    double offset = 0;
    bool missing = false;
  };
  std::vector<Section> sections;  ///< of each z; empty: all as they are
};

[[nodiscard]] Intensities draw_intensities(const Augmentation& augmentation, std::int64_t sections, const ExampleKey& key);

/// Change the contrast of some objects of a patch. Some neurons are as dark inside as membranes are, or darker.
///
/// Each object is changed with this probability. Its intensities become level + factor * (intensity - level). The level is the
/// mean intensity of all boundary voxels of the patch. The factor is random, from -0.5 to 0.5, another one for each object.
/// Boundary voxels are neighbours with different labels. A patch without any does not change.
///
/// @param labels of the patch and of `margin` voxels around it
/// @param image  [z, y, x, channels]
void make_objects_faint(double probability, View<const std::int64_t, 3> labels, const Vec3& margin, Philox random,
                        View<float, 4> image);

/// Change normalised intensities in place.
///
/// @param image  [z, y, x, channels]
/// @param black  normalised intensity of a missing section, of each channel
/// @param random gives the noise
void change(const Intensities& intensities, std::span<const float> black, Philox random, View<float, 4> image);

/// Return the weights of a Gaussian that is cut off at `cut_off` deviations: of the middle, and of each distance from it.
[[nodiscard]] std::vector<float> gaussian_weights(double deviation, double cut_off);

}  // namespace floodtide::data
