// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "floodtide/bench/measure.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::bench {

struct ConvOptions {
  Vec3 size{33, 33, 33};  ///< voxels
  std::int64_t in = 32;   ///< real input channels
  std::int64_t out = 32;  ///< real output channels
  Vec3 kernel{3, 3, 3};
  bool relu_input = true;  ///< forward and backward-weights rectify the input, backward-data applies the mask
  double seconds = 1.0;    ///< at least, per kernel and pass
  std::string against;     ///< a second candidate, timed in turn with the first; empty for none
};

/// Times the three passes of a convolution on num_threads() threads with the kernel that the dispatch chooses. The passes
/// are compared with the double-precision reference on a shorter volume of the same rows first.
/// Throws Error(internal) if a kernel is wrong, Error(unsupported) if `against` cannot serve the shape.
[[nodiscard]] std::vector<Row> conv(const ConvOptions& options);

}  // namespace floodtide::bench
