// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/conv3d/plan.hpp"
#include "kernels/conv3d/reference.hpp"

namespace floodtide::kernels {
namespace {

/// The last kernel of the dispatch table: the reference implementation.
class ReferencePlan final : public Conv3dPlan {
 public:
  explicit ReferencePlan(const Conv3dShape& shape) : shape_(shape) {
    weights_.resize(static_cast<std::size_t>(shape.weight_count()));
    bias_.resize(static_cast<std::size_t>(shape.out_channels));
  }

  void set_weights(const float* weights, const float* bias, Passes, Workspace&) override {
    std::copy_n(weights, weights_.size(), weights_.begin());
    std::copy_n(bias, bias_.size(), bias_.begin());
  }
  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out,
               Workspace&) override {
    reference::conv3d_forward(shape_, input, on_input, weights_.data(), bias_.data(), residual, relu_output, out);
  }
  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad,
                     Workspace&) override {
    reference::conv3d_backward_data(shape_, output_grad, weights_.data(), relu_mask, accumulate, out_input_grad);
  }
  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad, Workspace&) override {
    reference::conv3d_backward_weights(shape_, input, on_input, output_grad, out_weight_grad, out_bias_grad);
  }

 private:
  Conv3dShape shape_;
  std::vector<float> weights_;
  std::vector<float> bias_;
};

}  // namespace

std::unique_ptr<Conv3dPlan> make_reference_plan(const Conv3dShape& shape) { return std::make_unique<ReferencePlan>(shape); }

}  // namespace floodtide::kernels
