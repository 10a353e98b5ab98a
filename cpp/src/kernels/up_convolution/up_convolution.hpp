// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/tensor/view.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/conv3d/direct.hpp"

namespace floodtide::kernels {

/// Sizes of a transposed convolution whose kernel and stride are `pool`. Each input voxel becomes a block of output voxels.
struct UpConvolutionShape {
  std::int64_t examples;                   ///< number of volumes, one after another, each with its own halo
  std::int64_t z, y, x;                    ///< size of the input, without the halo
  std::int64_t in_channels, out_channels;  ///< multiples of 16
  Vec3 pool;                               ///< at least 1 along each axis
  std::int64_t out_stored;                 ///< stored channels of the output activation, which may be a concatenation
  std::int64_t out_begin;                  ///< first output channel in the output activation
};

/// Transposed convolution: out[pool * v + t] = bias + input[v] * weights[t].
///
/// Each kernel element t is a 1x1x1 convolution whose output voxels are `pool` voxels apart. The direct kernels compute it.
/// Input and output are activations as described at activation_size. Passes run on num_threads() threads, allocate nothing but
/// what the workspace lacks, and give the same bits on any number of threads.
class UpConvolution {
 public:
  explicit UpConvolution(const UpConvolutionShape& shape, Isa level = active_isa());

  /// @param weights [pool_z, pool_y, pool_x, in, out], bias [out]
  void set_weights(const float* weights, const float* bias, Passes passes = Passes::all);
  /// Writes the output channels to the interior of `out`. Other channels of `out` do not change.
  void forward(const float* input, float* out) const;
  /// Computes the gradient by the input. The interior of out_input_grad is overwritten.
  void backward_data(const float* output_grad, float* out_input_grad) const;
  /// Computes the gradients of weights and bias, and adds them to the outputs.
  void backward_weights(const float* input, const float* output_grad, float* out_weight_grad, float* out_bias_grad,
                        Workspace& workspace) const;

  [[nodiscard]] const UpConvolutionShape& shape() const noexcept { return shape_; }

 private:
  [[nodiscard]] std::int64_t taps() const noexcept { return volume<3>(shape_.pool); }
  /// Return the offset, in an example, of the first output voxel of kernel element `tap`.
  [[nodiscard]] std::int64_t out_offset(std::int64_t tap) const noexcept;
  [[nodiscard]] std::int64_t in_offset() const noexcept {
    return activation_offset({shape_.z, shape_.y, shape_.x, shape_.in_channels, 1}, shape_.in_channels, 0, 0, 0);
  }
  [[nodiscard]] std::int64_t in_floats() const noexcept {
    return activation_size(shape_.z, shape_.y, shape_.x, shape_.in_channels);
  }
  [[nodiscard]] std::int64_t out_floats() const noexcept;
  /// Return what all tasks of forward and backward-weights, or of backward-data, have in common.
  [[nodiscard]] direct::Rows task_rows(bool backward) const noexcept;
  /// Calls body(task of one input row, example, tap) for all rows. The taps of a row are called in order.
  template <class Body>
  void for_each_row(bool backward, Body body) const;
  [[nodiscard]] std::int64_t sums_floats() const noexcept;

  UpConvolutionShape shape_;
  const direct::DirectKernels* kernels_;
  AlignedBuffer<float> forward_weights_, backward_weights_;  // for each tap: weights packed for DirectKernels
  AlignedBuffer<float> bias_, zero_bias_;
};

}  // namespace floodtide::kernels
