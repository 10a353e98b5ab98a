// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "floodtide/kernels/dispatch.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::bench {

struct ConvOptions {
  Vec3 size{33, 33, 33};  ///< voxels
  std::int64_t in = 32;   ///< input channels, without padding
  std::int64_t out = 32;  ///< output channels, without padding
  Vec3 kernel{3, 3, 3};
  kernels::Compute compute = kernels::Compute::fp32;
  std::string name;  ///< of the kernel; empty: the dispatch chooses one
};

/// Passes of a convolution of random numbers on num_threads() threads. The caller measures the time. A ReLU is applied to the
/// input in forward() and backward_weights(), and its mask in backward_data().
class ConvPasses {
 public:
  /// Compares the passes with the kernel `reference` first, on a smaller volume with rows of the same length. Throws
  /// Error(internal) if the kernel is wrong, and the errors of kernels::Conv3d.
  explicit ConvPasses(const ConvOptions& options);
  ~ConvPasses();

  void forward();
  void backward_data();
  void backward_weights();

  /// Return the name of the kernel in use.
  [[nodiscard]] const std::string& kernel() const noexcept;
  /// Return the floating-point operations of one pass, counted as direct convolution.
  [[nodiscard]] double flops() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::bench
