// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/base/progress.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

struct SynthOptions {
  Vec3 shape{128, 128, 128};  ///< voxels along z, y, x
  std::uint64_t seed = 0;
};

struct SynthVolume {
  Tensor<std::uint8_t, 3> image;   ///< intensities, mean about 128
  Tensor<std::int64_t, 3> labels;  ///< ids of cells from 1 on; 0 on the membranes between them
};

/// Make a volume that looks like focused-ion-beam electron microscopy of neuropil. It has densely packed, curved, branching
/// processes with a diameter of 10 to 30 voxels, dark membranes of uneven thickness and contrast, mitochondria, vesicles, blur,
/// shot noise, and sections of uneven brightness. The result is a pure function of the options, for any number of threads.
/// Memory use: about 20 bytes per voxel. Throws Error(invalid_argument) for extents below 8.
[[nodiscard]] SynthVolume make_synthetic_volume(const SynthOptions& options, const Progress& progress = {});

}  // namespace floodtide::data
