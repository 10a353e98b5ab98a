// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/conv3d/conv3d.hpp"
#include "kernels/conv3d/direct.hpp"
#include "kernels/conv3d/winograd.hpp"

namespace floodtide::kernels {

/// Passes of Conv3d for one shape, with one kernel of the dispatch table. A plan has its own packed weights.
/// Conv3d has checked all arguments.
class Conv3dPlan {
 public:
  virtual ~Conv3dPlan() = default;
  virtual void set_weights(const float* weights, const float* bias, Passes passes, Workspace& workspace) = 0;
  virtual void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out,
                       Workspace& workspace) = 0;
  virtual void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad,
                             Workspace& workspace) = 0;
  virtual void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                                float* out_bias_grad, Workspace& workspace) = 0;
};

[[nodiscard]] std::string direct_unsupported(const Conv3dShape& shape);
[[nodiscard]] std::unique_ptr<Conv3dPlan> make_direct_plan(const Conv3dShape& shape, const direct::LevelKernels& kernels);

[[nodiscard]] std::string winograd_unsupported(const Conv3dShape& shape);
/// Return why direct convolution is expected to be faster, or an empty text if it is not.
[[nodiscard]] std::string winograd_avoided(const Conv3dShape& shape);
[[nodiscard]] std::unique_ptr<Conv3dPlan> make_winograd_plan(const Conv3dShape& shape, const winograd::Kernels& kernels);

[[nodiscard]] std::unique_ptr<Conv3dPlan> make_eigen_plan(const Conv3dShape& shape);
[[nodiscard]] std::unique_ptr<Conv3dPlan> make_reference_plan(const Conv3dShape& shape);

}  // namespace floodtide::kernels
