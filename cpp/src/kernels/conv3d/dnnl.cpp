// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <dnnl.hpp>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "kernels/conv3d/dnnl_plugin.hpp"

// Plug-in that computes a convolution with oneDNN, for comparison. oneDNN's fast kernels need their own layouts without a halo.
// Every pass therefore copies from and to our layout, and the time of these copies is part of the benchmark result.
namespace floodtide::kernels {
namespace {

using dnnl::memory;

constexpr std::int64_t kChunks = 64;

class DnnlPlan final : public Conv3dPlan {
 public:
  explicit DnnlPlan(const Conv3dShape& shape)
      : shape_(shape), in_(shape.in_channels), out_(shape.out_channels), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    plan();
  }

  void set_weights(const float* weights, const float* bias, Passes) override {
    const memory source(user_weights_, engine_, const_cast<float*>(weights));
    copy(source, forward_weights_);
    copy(source, backward_weights_);
    std::copy_n(bias, out_, static_cast<float*>(bias_.get_data_handle()));
    stream_.wait();
  }

  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out) override {
    gather(input, shape_.stored_in(), in_, on_input, input_);
    copy(input_, forward_input_);
    forward_.execute(stream_, {{DNNL_ARG_SRC, forward_input_},
                               {DNNL_ARG_WEIGHTS, forward_weights_},
                               {DNNL_ARG_BIAS, bias_},
                               {DNNL_ARG_DST, forward_output_}});
    copy(forward_output_, output_);
    stream_.wait();
    scatter(output_, shape_.stored_out(), out_, [=](std::int64_t at, float sum) {
      if (residual != nullptr) sum += residual[at];
      out[at] = relu_output && sum < 0.0F ? 0.0F : sum;
    });
  }

  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad) override {
    gather(output_grad, shape_.stored_out(), out_, Activation::none, output_);
    copy(output_, data_output_grad_);
    backward_data_.execute(
        stream_,
        {{DNNL_ARG_DIFF_DST, data_output_grad_}, {DNNL_ARG_WEIGHTS, backward_weights_}, {DNNL_ARG_DIFF_SRC, data_input_grad_}});
    copy(data_input_grad_, input_);
    stream_.wait();
    scatter(input_, shape_.stored_in(), in_, [=](std::int64_t at, float sum) {
      if (relu_mask != nullptr && !(relu_mask[at] > 0.0F)) sum = 0.0F;
      out_input_grad[at] = accumulate ? out_input_grad[at] + sum : sum;
    });
  }

  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad) override {
    gather(input, shape_.stored_in(), in_, on_input, input_);
    copy(input_, weights_input_);
    gather(output_grad, shape_.stored_out(), out_, Activation::none, output_);
    copy(output_, weights_output_grad_);
    backward_weights_pass_.execute(stream_, {{DNNL_ARG_SRC, weights_input_},
                                             {DNNL_ARG_DIFF_DST, weights_output_grad_},
                                             {DNNL_ARG_DIFF_WEIGHTS, weight_grad_},
                                             {DNNL_ARG_DIFF_BIAS, bias_grad_}});
    copy(weight_grad_, plain_weight_grad_);
    stream_.wait();
    add(plain_weight_grad_, out_weight_grad);
    add(bias_grad_, out_bias_grad);
  }

 private:
  /// Makes the primitives and all buffers.
  void plan() {
    const auto any = memory::format_tag::any;
    const auto f32 = memory::data_type::f32;
    const memory::dims input{1, in_, shape_.z, shape_.y, shape_.x};
    const memory::dims output{1, out_, shape_.z, shape_.y, shape_.x};
    const memory::dims weights{out_, in_, shape_.kernel_z, shape_.kernel_y, shape_.kernel_x};
    const memory::dims strides{1, 1, 1};
    const memory::dims padding{shape_.kernel_z / 2, shape_.kernel_y / 2, shape_.kernel_x / 2};
    const memory::desc in_any(input, f32, any), out_any(output, f32, any), weights_any(weights, f32, any);
    const memory::desc bias({out_}, f32, memory::format_tag::x);
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(engine_, dnnl::prop_kind::forward_training, algorithm, in_any,
                                                            weights_any, bias, out_any, strides, padding, padding);
    const dnnl::convolution_backward_data::primitive_desc data(engine_, algorithm, in_any, weights_any, out_any, strides,
                                                               padding, padding, forward);
    const dnnl::convolution_backward_weights::primitive_desc gradient(engine_, algorithm, in_any, weights_any, bias, out_any,
                                                                      strides, padding, padding, forward);
    forward_ = dnnl::convolution_forward(forward);
    backward_data_ = dnnl::convolution_backward_data(data);
    backward_weights_pass_ = dnnl::convolution_backward_weights(gradient);

    // Our layouts, without the halo: voxels with channels last, and weights (kz, ky, kx, in, out).
    user_weights_ = memory::desc(weights, f32, memory::format_tag::dhwio);
    input_ = memory({input, f32, memory::format_tag::ndhwc}, engine_);
    output_ = memory({output, f32, memory::format_tag::ndhwc}, engine_);
    plain_weight_grad_ = memory(user_weights_, engine_);
    bias_ = memory(bias, engine_);
    bias_grad_ = memory(bias, engine_);
    forward_input_ = memory(forward.src_desc(), engine_);
    forward_weights_ = memory(forward.weights_desc(), engine_);
    forward_output_ = memory(forward.dst_desc(), engine_);
    data_output_grad_ = memory(data.diff_dst_desc(), engine_);
    backward_weights_ = memory(data.weights_desc(), engine_);
    data_input_grad_ = memory(data.diff_src_desc(), engine_);
    weights_input_ = memory(gradient.src_desc(), engine_);
    weights_output_grad_ = memory(gradient.diff_dst_desc(), engine_);
    weight_grad_ = memory(gradient.diff_weights_desc(), engine_);
  }

  void copy(const memory& from, const memory& to) {
    dnnl::reorder(from, to).execute(stream_, const_cast<memory&>(from), const_cast<memory&>(to));
  }

  /// Copies the interior of an activation, without padding channels, and applies `activation`. NaN stays NaN.
  void gather(const float* from, std::int64_t stored, std::int64_t real, Activation activation, const memory& to) const {
    auto* dense = static_cast<float*>(to.get_data_handle());
    for_each_voxel([&](std::int64_t voxel, std::int64_t z, std::int64_t y, std::int64_t x) {
      const float* source = from + activation_offset(shape_, stored, z, y, x);
      for (std::int64_t channel = 0; channel < real; ++channel) {
        const float value = source[channel];
        dense[voxel * real + channel] = activation == Activation::relu && value < 0.0F ? 0.0F : value;
      }
    });
  }

  /// Calls store(offset in the activation, value) for every value of the interior.
  template <class Store>
  void scatter(const memory& from, std::int64_t stored, std::int64_t real, Store store) const {
    const auto* dense = static_cast<const float*>(from.get_data_handle());
    for_each_voxel([&](std::int64_t voxel, std::int64_t z, std::int64_t y, std::int64_t x) {
      const std::int64_t at = activation_offset(shape_, stored, z, y, x);
      for (std::int64_t channel = 0; channel < real; ++channel) store(at + channel, dense[voxel * real + channel]);
    });
  }

  template <class Body>
  void for_each_voxel(Body body) const {
    const std::int64_t rows = shape_.z * shape_.y;
    const std::int64_t chunks = std::min(kChunks, rows);
    parallel_for(chunks, [&](std::int64_t chunk) {
      const Range range = chunk_range(rows, chunks, chunk);
      for (std::int64_t row = range.begin; row < range.end; ++row) {
        for (std::int64_t x = 0; x < shape_.x; ++x) body(row * shape_.x + x, row / shape_.y, row % shape_.y, x);
      }
    });
  }

  static void add(const memory& from, float* to) {
    const auto* values = static_cast<const float*>(from.get_data_handle());
    const auto count = static_cast<std::int64_t>(from.get_desc().get_size() / sizeof(float));
    for (std::int64_t i = 0; i < count; ++i) to[i] += values[i];
  }

  Conv3dShape shape_;
  std::int64_t in_, out_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  memory::desc user_weights_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_data backward_data_;
  dnnl::convolution_backward_weights backward_weights_pass_;
  memory input_, output_, bias_, bias_grad_, plain_weight_grad_;  // in our layout
  memory forward_input_, forward_weights_, forward_output_;       // this and below: in oneDNN's layouts
  memory data_output_grad_, backward_weights_, data_input_grad_;
  memory weights_input_, weights_output_grad_, weight_grad_;
};

/// Calls the plan, and converts oneDNN's exceptions to Error(internal). Only this file knows oneDNN's exceptions.
class GuardedPlan final : public Conv3dPlan {
 public:
  explicit GuardedPlan(const Conv3dShape& shape) {
    guarded([&] { plan_ = std::make_unique<DnnlPlan>(shape); });
  }
  void set_weights(const float* weights, const float* bias, Passes passes) override {
    guarded([&] { plan_->set_weights(weights, bias, passes); });
  }
  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out) override {
    guarded([&] { plan_->forward(input, on_input, residual, relu_output, out); });
  }
  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad) override {
    guarded([&] { plan_->backward_data(output_grad, relu_mask, accumulate, out_input_grad); });
  }
  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad) override {
    guarded([&] { plan_->backward_weights(input, on_input, output_grad, out_weight_grad, out_bias_grad); });
  }

 private:
  template <class Body>
  static void guarded(Body body) {
    try {
      body();
    } catch (const dnnl::error& error) {
      raise(ErrorCode::internal, "conv3d: oneDNN: ", error.what());
    }
  }
  std::unique_ptr<DnnlPlan> plan_;
};

}  // namespace
}  // namespace floodtide::kernels

extern "C" FLOODTIDE_EXPORT floodtide::kernels::Conv3dPlan* floodtide_dnnl_make_plan(
    const floodtide::kernels::Conv3dShape& shape) {
  return new floodtide::kernels::GuardedPlan(shape);
}
