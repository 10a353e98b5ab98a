// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "floodtide/base/error.hpp"
#include "kernels/conv3d/dnnl_plugin.hpp"
#include "kernels/conv3d/plan.hpp"

namespace floodtide::kernels {
namespace {

std::function<void(std::string_view)>& dispatch_listener() {
  static std::function<void(std::string_view)> listener;
  return listener;
}

std::string never(const Conv3dShape&) { return ""; }

template <const winograd::Kernels* kernels>
std::unique_ptr<Conv3dPlan> make_winograd(const Conv3dShape& shape) {
  return make_winograd_plan(shape, *kernels);
}
template <const direct::DirectKernels* wide, const direct::DirectKernels* narrow>
std::unique_ptr<Conv3dPlan> make_direct(const Conv3dShape& shape) {
  return make_direct_plan(shape, {wide, narrow});
}

std::string describe(const Conv3dShape& shape) {
  return str_cat("conv3d ", shape.kernel_z, 'x', shape.kernel_y, 'x', shape.kernel_x, ", ", shape.in_channels, " to ",
                 shape.out_channels, " channels, ", shape.z, 'x', shape.y, 'x', shape.x, " voxels");
}

void check(const Conv3dShape& shape) {
  FLOODTIDE_REQUIRE(shape.z >= 1 && shape.y >= 1 && shape.x >= 1, invalid_argument, describe(shape),
                    ": expected at least one voxel");
  for (const std::int64_t channels : {shape.in_channels, shape.out_channels}) {
    FLOODTIDE_REQUIRE(channels >= 1, invalid_argument, describe(shape), ": expected at least one channel");
  }
  for (const std::int64_t extent : {shape.kernel_z, shape.kernel_y, shape.kernel_x}) {
    FLOODTIDE_REQUIRE(extent == 1 || extent == 3, invalid_argument, describe(shape), ": expected kernel extents of 1 or 3");
  }
}

Conv3dCandidate choose(const Conv3dShape& shape, Isa level, std::string_view kernel, Compute compute) {
  const std::vector<Conv3dCandidate> candidates = conv3d_candidates();
  std::string refusals;
  std::string names;
  for (const Conv3dCandidate& candidate : candidates) {
    names += str_cat(names.empty() ? "" : ", ", candidate.name);
    if (!kernel.empty() && candidate.name != kernel) continue;
    std::string reason;
    if (candidate.level > level) reason = str_cat("needs ", name(candidate.level), ", the level is ", name(level));
    if (reason.empty() && kernel.empty() && compute == Compute::fp32_direct && candidate.compute != compute) {
      reason = str_cat("compute is ", name(compute));
    }
    if (reason.empty() && kernel.empty()) reason = candidate.avoided(shape);
    if (reason.empty()) reason = candidate.unsupported(shape);  // loads oneDNN's library, so ask last
    if (reason.empty()) {
      if (dispatch_listener()) dispatch_listener()(str_cat(describe(shape), ": ", candidate.name, refusals));
      return candidate;
    }
    FLOODTIDE_REQUIRE(kernel.empty(), unsupported, describe(shape), ": kernel '", kernel, "' refuses: ", reason);
    refusals += str_cat("; not ", candidate.name, ": ", reason);
  }
  raise(ErrorCode::invalid_argument, describe(shape), ": kernel '", kernel, "' is unknown, expected one of ", names);
}

}  // namespace

std::vector<Conv3dCandidate> conv3d_candidates() {
  [[maybe_unused]] constexpr Compute transformed = Compute::fp32;  // x86-64 only
  constexpr Compute direct = Compute::fp32_direct;
  return {
#if defined(__x86_64__)
      {"onednn", Isa::avx2, direct, &dnnl_unsupported, &dnnl_avoided, &make_dnnl_plan},
      {"avx512_winograd", Isa::avx512, transformed, &winograd_unsupported, &winograd_avoided,
       &make_winograd<&winograd::kAvx512>},
      {"avx512_direct", Isa::avx512, direct, &direct_unsupported, &never,
       &make_direct<&direct::kAvx512, &direct::kAvx512Narrow>},
      {"avx2_winograd", Isa::avx2, transformed, &winograd_unsupported, &winograd_avoided, &make_winograd<&winograd::kAvx2>},
      {"avx2_direct", Isa::avx2, direct, &direct_unsupported, &never, &make_direct<&direct::kAvx2, &direct::kAvx2Narrow>},
#endif
      {"generic_direct", Isa::generic, direct, &direct_unsupported, &never, &make_direct<&direct::kGeneric, &direct::kGeneric>},
      {"eigen", Isa::generic, direct, &never, &never, &make_eigen_plan},
      {"reference", Isa::reference, direct, &never, &never, &make_reference_plan},
  };
}

std::vector<KernelName> conv3d_kernel_names() {
  std::vector<KernelName> names;
  for (const Conv3dCandidate& candidate : conv3d_candidates()) names.push_back({candidate.name, candidate.level});
  return names;
}

void set_dispatch_listener(std::function<void(std::string_view)> listener) { dispatch_listener() = std::move(listener); }

Conv3d::Conv3d(const Conv3dShape& shape, Isa level, std::string_view kernel, Compute compute) : shape_(shape) {
  check(shape);
  FLOODTIDE_REQUIRE(compute != Compute::bf16, unsupported, describe(shape), ": compute is bf16, expected fp32 or fp32-direct");
  const Conv3dCandidate candidate = choose(shape, level, kernel, compute);
  kernel_ = candidate.name;
  plan_ = candidate.make(shape);
}
Conv3d::~Conv3d() = default;
Conv3d::Conv3d(Conv3d&&) noexcept = default;
Conv3d& Conv3d::operator=(Conv3d&&) noexcept = default;

void Conv3d::set_weights(const float* weights, const float* bias, Workspace& workspace, Passes passes) {
  passes_ = passes;
  has_weights_ = true;
  plan_->set_weights(weights, bias, passes, workspace);
}

void Conv3d::forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out,
                     Workspace& workspace) const {
  FLOODTIDE_ASSERT(has_weights_);
  plan_->forward(input, on_input, residual, relu_output, out, workspace);
}

void Conv3d::backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad,
                           Workspace& workspace) const {
  FLOODTIDE_ASSERT(has_weights_ && passes_ == Passes::all);
  plan_->backward_data(output_grad, relu_mask, accumulate, out_input_grad, workspace);
}

void Conv3d::backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                              float* out_bias_grad, Workspace& workspace) const {
  plan_->backward_weights(input, on_input, output_grad, out_weight_grad, out_bias_grad, workspace);
}

double Conv3d::flops() const noexcept {
  return 2.0 * static_cast<double>(shape_.z * shape_.y * shape_.x) * static_cast<double>(shape_.weight_count());
}

std::string Conv3d::kernel_names() const {
  return str_cat("forward ", kernel_, ", backward_data ", kernel_, ", backward_weights ", kernel_);
}

}  // namespace floodtide::kernels
