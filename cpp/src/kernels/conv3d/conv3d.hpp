// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/kernels/dispatch.hpp"
#include "kernels/conv3d/shape.hpp"

namespace floodtide::kernels {

/// Function that is applied to an input while it is read. Residual networks with pre-activation store their stream before the
/// ReLU.
enum class Activation { none, relu };

/// Passes for which weights are prepared. Forward and backward-data need different forms of the weights; backward-weights needs
/// no weights.
enum class Passes { forward, all };

class Conv3dPlan;

/// One planned convolution for one example: chosen kernel and packed weights.
///
/// Passes run on num_threads() threads, allocate nothing but what the workspace lacks, and give the same result on any number
/// of threads, bit for bit. Several threads may run passes at the same time, each with its own workspace. Arrays are
/// activations as described at activation_size, aligned to 64 bytes. No pass writes to the halo. Padding channels are zero and
/// stay zero.
///
/// Source: docs/algorithms.md, "Convolution".
class Conv3d {
 public:
  /// @param level   highest instruction-set level to use; the default reads FLOODTIDE_ISA
  /// @param kernel  name of the kernel to use; empty: the dispatch chooses the first acceptable kernel
  /// @param compute arithmetic that is allowed if the dispatch chooses
  /// Throws Error(invalid_argument) for sizes outside Conv3dShape's ranges or an unknown kernel. Throws Error(unsupported) if
  /// the named kernel does not support the shape or needs a higher level.
  explicit Conv3d(const Conv3dShape& shape, Isa level = active_isa(), std::string_view kernel = "",
                  Compute compute = Compute::fp32);
  ~Conv3d();
  Conv3d(Conv3d&&) noexcept;
  Conv3d& operator=(Conv3d&&) noexcept;

  /// Prepares the weights for `passes`. Call this before the first pass and after each change of the weights.
  /// @param weights [kernel_z, kernel_y, kernel_x, in, out]
  /// @param bias    [out]
  void set_weights(const float* weights, const float* bias, Workspace& workspace, Passes passes = Passes::all);

  /// Computes out = conv(f(input)) + bias, plus the residual if given, and then the ReLU if `relu_output`.
  /// @param residual activation of the output's size, or null; may be `out`
  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out,
               Workspace& workspace) const;

  /// Computes the gradient by the input, conv^T(output_grad), and stores it in `out_input_grad`, or adds it if `accumulate`.
  /// @param relu_mask activation of the input's size, or null. Where it is not positive, conv^T(output_grad) is replaced by 0.
  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad,
                     Workspace& workspace) const;

  /// Computes the gradients of weights [kernel_z, kernel_y, kernel_x, in, out] and bias [out], and adds them to the outputs.
  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad, Workspace& workspace) const;

  [[nodiscard]] const Conv3dShape& shape() const noexcept { return shape_; }
  /// Return the name of the kernel in use.
  [[nodiscard]] const std::string& kernel() const noexcept { return kernel_; }
  /// Return the floating-point operations of one pass, counted as direct convolution. A multiply-add counts two. Products with
  /// the zeros of the halo are included.
  [[nodiscard]] double flops() const noexcept;
  /// Return the kernels as text: "forward avx2_direct, backward_data avx2_direct, backward_weights avx2_direct".
  [[nodiscard]] std::string kernel_names() const;

 private:
  Conv3dShape shape_;
  Passes passes_ = Passes::forward;
  bool has_weights_ = false;
  std::string kernel_;
  std::unique_ptr<Conv3dPlan> plan_;
};

/// Row of the dispatch table. The best kernel is first. The last one accepts every shape.
struct Conv3dCandidate {
  std::string_view name;
  Isa level;                                             ///< instruction-set level that the kernel needs
  Compute compute;                                       ///< arithmetic of the kernel: fp32 (Winograd) or fp32_direct
  std::string (*unsupported)(const Conv3dShape& shape);  ///< returns why the kernel refuses the shape; empty: it accepts it
  /// Returns why the dispatch does not choose the kernel for this shape; empty: it may. A named kernel is used anyway.
  std::string (*avoided)(const Conv3dShape& shape);
  std::unique_ptr<Conv3dPlan> (*make)(const Conv3dShape& shape);
};
/// Return the rows of the dispatch table that exist for this processor architecture.
[[nodiscard]] std::vector<Conv3dCandidate> conv3d_candidates();

}  // namespace floodtide::kernels
