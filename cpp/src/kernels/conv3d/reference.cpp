// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d/reference.hpp"

#include <algorithm>
#include <vector>

#include "kernels/conv3d/plan.hpp"

namespace floodtide::kernels::reference {
namespace {

/// Calls body(z, y, x) for every voxel of the interior.
template <class Body>
void for_each_voxel(const Conv3dShape& shape, Body body) {
  for (std::int64_t z = 0; z < shape.z; ++z) {
    for (std::int64_t y = 0; y < shape.y; ++y) {
      for (std::int64_t x = 0; x < shape.x; ++x) body(z, y, x);
    }
  }
}

/// Calls body(tap, dz, dy, dx) for every kernel element: its index, and the offset of the input voxel from the output voxel.
template <class Body>
void for_each_tap(const Conv3dShape& shape, Body body) {
  std::int64_t tap = 0;
  for (std::int64_t kz = 0; kz < shape.kernel_z; ++kz) {
    for (std::int64_t ky = 0; ky < shape.kernel_y; ++ky) {
      for (std::int64_t kx = 0; kx < shape.kernel_x; ++kx, ++tap) {
        body(tap, kz - shape.kernel_z / 2, ky - shape.kernel_y / 2, kx - shape.kernel_x / 2);
      }
    }
  }
}

template <class T>
T applied(T value, Activation activation) {
  return activation == Activation::relu && value < T(0) ? T(0) : value;
}

}  // namespace

template <class T>
void conv3d_forward(const Conv3dShape& shape, const T* input, Activation on_input, const T* weights, const T* bias,
                    const T* residual, bool relu_output, T* result) {
  const std::int64_t in = shape.in_channels, out = shape.out_channels;
  for_each_voxel(shape, [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    const std::int64_t voxel = activation_offset(shape, shape.stored_out(), z, y, x);
    for (std::int64_t o = 0; o < out; ++o) {
      T sum = bias[o];
      for_each_tap(shape, [&](std::int64_t tap, std::int64_t dz, std::int64_t dy, std::int64_t dx) {
        const T* source = input + activation_offset(shape, shape.stored_in(), z + dz, y + dy, x + dx);
        for (std::int64_t i = 0; i < in; ++i) sum += applied(source[i], on_input) * weights[(tap * in + i) * out + o];
      });
      if (residual != nullptr) sum += residual[voxel + o];
      result[voxel + o] = applied(sum, relu_output ? Activation::relu : Activation::none);
    }
  });
}

template <class T>
void conv3d_backward_data(const Conv3dShape& shape, const T* output_grad, const T* weights, const T* relu_mask, bool accumulate,
                          T* out_input_grad) {
  const std::int64_t in = shape.in_channels, out = shape.out_channels;
  for_each_voxel(shape, [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    const std::int64_t voxel = activation_offset(shape, shape.stored_in(), z, y, x);
    for (std::int64_t i = 0; i < in; ++i) {
      T sum = T(0);
      for_each_tap(shape, [&](std::int64_t tap, std::int64_t dz, std::int64_t dy, std::int64_t dx) {
        const T* source = output_grad + activation_offset(shape, shape.stored_out(), z - dz, y - dy, x - dx);
        for (std::int64_t o = 0; o < out; ++o) sum += source[o] * weights[(tap * in + i) * out + o];
      });
      if (relu_mask != nullptr && !(relu_mask[voxel + i] > T(0))) sum = T(0);
      out_input_grad[voxel + i] = accumulate ? out_input_grad[voxel + i] + sum : sum;
    }
  });
}

template <class T>
void conv3d_backward_weights(const Conv3dShape& shape, const T* input, Activation on_input, const T* output_grad,
                             T* out_weight_grad, T* out_bias_grad) {
  const std::int64_t in = shape.in_channels, out = shape.out_channels;
  for_each_tap(shape, [&](std::int64_t tap, std::int64_t dz, std::int64_t dy, std::int64_t dx) {
    for_each_voxel(shape, [&](std::int64_t z, std::int64_t y, std::int64_t x) {
      const T* source = input + activation_offset(shape, shape.stored_in(), z + dz, y + dy, x + dx);
      const T* grad = output_grad + activation_offset(shape, shape.stored_out(), z, y, x);
      for (std::int64_t i = 0; i < in; ++i) {
        for (std::int64_t o = 0; o < out; ++o) {
          out_weight_grad[(tap * in + i) * out + o] += applied(source[i], on_input) * grad[o];
        }
      }
    });
  });
  for_each_voxel(shape, [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    const T* grad = output_grad + activation_offset(shape, shape.stored_out(), z, y, x);
    for (std::int64_t o = 0; o < out; ++o) out_bias_grad[o] += grad[o];
  });
}

#define FLOODTIDE_INSTANTIATE(T)                                                                                     \
  template void conv3d_forward<T>(const Conv3dShape&, const T*, Activation, const T*, const T*, const T*, bool, T*); \
  template void conv3d_backward_data<T>(const Conv3dShape&, const T*, const T*, const T*, bool, T*);                 \
  template void conv3d_backward_weights<T>(const Conv3dShape&, const T*, Activation, const T*, T*, T*);
FLOODTIDE_INSTANTIATE(float)
FLOODTIDE_INSTANTIATE(double)
#undef FLOODTIDE_INSTANTIATE

}  // namespace floodtide::kernels::reference

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
