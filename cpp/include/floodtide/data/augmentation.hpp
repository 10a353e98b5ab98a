// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "floodtide/tensor/box.hpp"

namespace floodtide::data {

/// Random changes of training patches. 0, false and empty lists switch a change off. Positions are in voxels, intensities are
/// normalised ones. A section is a plane z of the patch.
struct Augmentation {
  std::vector<int> permutable_axes;   ///< axes (0 = z) that one random permutation shuffles; equal patch sizes
  std::vector<int> reflectable_axes;  ///< axes that are each reversed with probability one half
  double rotation_deg = 0;            ///< largest angle of a rotation in the plane (y, x), in degrees, 0 to 180
  bool rotate_in_space = false;       ///< rotate about a random axis instead, and displace along z, too
  double scale = 0;                   ///< magnification is log-uniform in [1 / (1 + scale), 1 + scale]
  double elastic = 0;                 ///< standard deviation of a smooth displacement; it varies over 32 voxels
  double blur = 0;                    ///< largest standard deviation of a Gaussian blur of the sections
  double gamma = 0;                   ///< exponent of the intensities is log-uniform in [1 / (1 + gamma), 1 + gamma]
  double gain = 0;                    ///< intensities are multiplied by a factor in [1 - gain, 1 + gain]; below 1
  double offset = 0;                  ///< a number in [-offset, offset] is added to all intensities
  double noise = 0;                   ///< standard deviation of the normal noise of each voxel
  double faint_object = 0;            ///< probability that an object has little contrast to its boundary
  // Probability that a section suffers; one section has at most one of the first three, so their sum is at most 1.
  double missing_section = 0;    ///< black; patches of fewer than three sections lose none
  double dark_section = 0;       ///< less contrast and another brightness
  double defocused_section = 0;  ///< blurred
  double shifted_section = 0;    ///< displaced in the plane by up to 1/16 of the patch, with its labels
};

/// Throws Error(invalid_argument) for a value outside its range, axes that are not different ones out of 0, 1, 2, and patches
/// that differ in size along permutable axes.
void require_valid(const Augmentation& augmentation, const Vec3& patch_size);

}  // namespace floodtide::data
