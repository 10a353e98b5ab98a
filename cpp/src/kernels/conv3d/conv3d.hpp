// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/isa.hpp"
#include "floodtide/kernels/dispatch.hpp"
#include "kernels/conv3d/shape.hpp"

namespace floodtide::kernels {

/// What is applied to an input while it is read: residual networks with pre-activation store the un-rectified stream.
enum class Activation { none, relu };

/// What weights are prepared for: backward-data needs another form of them than forward, backward-weights none.
enum class Passes { forward, all };

class Conv3dPlan;

/// One planned convolution of one example: chosen kernels, packed weights, scratch memory. Passes run on num_threads()
/// threads, allocate nothing, may run on several threads of the caller's at once (onednn's excepted), and give bitwise the same
/// result on any number of threads. Arrays are activations as described at activation_size, aligned to 64 bytes; no pass writes
/// a halo. Channels beyond the real ones are zero and stay zero.
///
/// Source: docs/algorithms.md, "Convolution".
class Conv3d {
 public:
  /// @param level  highest instruction set to use; the default reads FLOODTIDE_ISA.
  /// @param kernel  name of a candidate to use instead of the first acceptable one; empty for the usual choice.
  /// @param compute which candidates are acceptable where none is named
  /// Throws Error(invalid_argument) for sizes outside Conv3dShape's ranges or an unknown kernel, Error(unsupported) if the
  /// named kernel refuses the shape or needs a higher level.
  explicit Conv3d(const Conv3dShape& shape, Isa level = active_isa(), std::string_view kernel = "",
                  Compute compute = Compute::fp32);
  ~Conv3d();
  Conv3d(Conv3d&&) noexcept;
  Conv3d& operator=(Conv3d&&) noexcept;

  /// Prepares weights for some passes. To be called before the first of them and after each change of the weights.
  /// @param weights [kernel_z, kernel_y, kernel_x, in, out]
  /// @param bias    [out]
  void set_weights(const float* weights, const float* bias, Passes passes = Passes::all);

  /// out = conv(f(input)) + bias [+ residual], rectified if `relu_output`.
  /// @param residual activation of the output's size, or null; may be `out` itself.
  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out) const;

  /// out_input_grad = (or += if `accumulate`) conv^T(output_grad), multiplied by (relu_mask > 0) where a mask is given.
  /// The mask, an activation of the input's size, applies to the convolution's contribution only.
  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad) const;

  /// Adds to the gradients of weights [kernel_z, kernel_y, kernel_x, in, out] and bias [out].
  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad) const;

  [[nodiscard]] const Conv3dShape& shape() const noexcept { return shape_; }
  /// Name of the candidate in use.
  [[nodiscard]] const std::string& kernel() const noexcept { return kernel_; }
  /// Multiply-adds count two; padding counts as in the usual formula. For one pass, as direct convolution.
  [[nodiscard]] double flops() const noexcept;
  /// For example "forward avx2_direct, backward_data avx2_direct, backward_weights avx2_direct".
  [[nodiscard]] std::string kernel_names() const;

 private:
  Conv3dShape shape_;
  Passes passes_ = Passes::forward;
  bool has_weights_ = false;
  std::string kernel_;
  std::unique_ptr<Conv3dPlan> plan_;
};

/// A row of the dispatch table, best first; the last accepts every shape.
struct Conv3dCandidate {
  std::string_view name;
  Isa level;                                                      ///< instruction set that it needs
  Compute compute;                                                ///< the freest setting under which it may be chosen
  std::string (*unsupported)(const Conv3dShape& shape);           ///< why it refuses the shape, empty if it does not
  std::string (*avoided)(const Conv3dShape& shape);               ///< why it is taken only if it is named, empty if it is not
  std::unique_ptr<Conv3dPlan> (*make)(const Conv3dShape& shape);  ///< plans scratch memory
};
[[nodiscard]] std::vector<Conv3dCandidate> conv3d_candidates();

}  // namespace floodtide::kernels
