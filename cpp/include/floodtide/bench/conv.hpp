// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "floodtide/bench/measure.hpp"
#include "floodtide/kernels/dispatch.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::bench {

struct ConvOptions {
  Vec3 size{33, 33, 33};  ///< voxels
  std::int64_t in = 32;   ///< input channels, without padding
  std::int64_t out = 32;  ///< output channels, without padding
  Vec3 kernel{3, 3, 3};
  bool relu_input = true;  ///< apply a ReLU to the input in forward and backward-weights, and its mask in backward-data
  kernels::Compute compute = kernels::Compute::fp32;
  double seconds = 1.0;  ///< smallest total time of the samples, for each kernel and pass
  std::string against;   ///< name of a second kernel, timed alternately with the first; empty: none
};

/// Time the three passes of a convolution on num_threads() threads, with the kernel that the dispatch chooses.
///
/// The passes are first compared with the double-precision reference, on a smaller volume with rows of the same length.
/// Throws Error(internal) if a kernel is wrong, and Error(unsupported) if the kernel `against` does not support the shape.
[[nodiscard]] std::vector<Row> conv(const ConvOptions& options);

}  // namespace floodtide::bench
