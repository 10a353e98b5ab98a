// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/conv3d/plan.hpp"
#include "kernels/conv3d/reference.hpp"

namespace floodtide::kernels {
namespace {

/// The last candidate: the reference itself.
class ReferencePlan final : public Conv3dPlan {
 public:
  explicit ReferencePlan(const Conv3dShape& shape) : shape_(shape) {
    weights_.reserve(
        static_cast<std::size_t>(shape.kernel_z * shape.kernel_y * shape.kernel_x * shape.in_channels * shape.out_channels));
    bias_.reserve(static_cast<std::size_t>(shape.out_channels));
  }

  void set_weights(const float* weights, std::int64_t in, std::int64_t out, const float* bias) override {
    in_ = in;
    out_ = out;
    weights_.assign(weights, weights + shape_.kernel_z * shape_.kernel_y * shape_.kernel_x * in * out);
    bias_.assign(bias, bias + out);
  }
  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out) override {
    reference::conv3d_forward(shape_, in_, out_, input, on_input, weights_.data(), bias_.data(), residual, relu_output, out);
  }
  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad) override {
    reference::conv3d_backward_data(shape_, in_, out_, output_grad, weights_.data(), relu_mask, accumulate, out_input_grad);
  }
  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad) override {
    reference::conv3d_backward_weights(shape_, in_, out_, input, on_input, output_grad, out_weight_grad, out_bias_grad);
  }

 private:
  Conv3dShape shape_;
  std::int64_t in_ = 0;
  std::int64_t out_ = 0;
  std::vector<float> weights_;
  std::vector<float> bias_;
};

}  // namespace

std::unique_ptr<Conv3dPlan> make_reference_plan(const Conv3dShape& shape) { return std::make_unique<ReferencePlan>(shape); }

}  // namespace floodtide::kernels
