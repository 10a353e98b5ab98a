// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/conv.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/random.hpp"
#include "kernels/conv3d/conv3d.hpp"

namespace floodtide::bench {
namespace {

using kernels::Activation;
using kernels::Conv3d;
using kernels::Conv3dShape;

/// Largest error of a correct kernel, relative to the root mean square of the result. Typical errors are about 1e-6.
constexpr double kMostError = 1e-5;

constexpr double kMostRowProducts = 3e7;  // the reference computes about 5e8 products per second

void require_close(const std::string& what, std::span<const float> got, std::span<const float> expected) {
  double difference = 0, total = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double{got[i]} - double{expected[i]}, 2);
    total += double{expected[i]} * double{expected[i]};
  }
  const double error = std::sqrt(difference / total);
  FLOODTIDE_REQUIRE(error <= kMostError, internal, what, " differs from the reference by ", error, " of its root mean square");
}

}  // namespace

struct ConvPasses::Impl {
  Conv3d conv;
  AlignedBuffer<float> weights, bias, weight_grad, bias_grad, input, output, output_grad, input_grad;
  Workspace workspace;

  Impl(const Conv3dShape& shape, const std::string& kernel, kernels::Compute compute)
      : conv(shape, active_isa(), kernel, compute),
        weights(shape.weight_count()),
        bias(shape.out_channels),
        weight_grad(shape.weight_count()),
        bias_grad(shape.out_channels),
        input(kernels::activation_size(shape.z, shape.y, shape.x, shape.stored_in())),
        output(kernels::activation_size(shape.z, shape.y, shape.x, shape.stored_out())),
        output_grad(output.size()),
        input_grad(input.size()) {
    Philox random(1, 0);
    const auto fill = [&](float* values, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.uniform() - 0.5);
    };
    fill(weights.data(), weights.size());
    fill(bias.data(), bias.size());
    for (std::int64_t voxel = 0; voxel < shape.z * shape.y * shape.x; ++voxel) {
      const Vec3 at{voxel / (shape.y * shape.x), voxel / shape.x % shape.y, voxel % shape.x};
      fill(input.data() + kernels::activation_offset(shape, shape.stored_in(), at[0], at[1], at[2]), shape.in_channels);
      fill(output_grad.data() + kernels::activation_offset(shape, shape.stored_out(), at[0], at[1], at[2]), shape.out_channels);
    }
    conv.set_weights(weights.data(), bias.data(), workspace);
  }

  void forward() { conv.forward(input.data(), Activation::relu, nullptr, false, output.data(), workspace); }
  void backward_data() { conv.backward_data(output_grad.data(), input.data(), false, input_grad.data(), workspace); }
  void backward_weights() {
    conv.backward_weights(input.data(), Activation::relu, output_grad.data(), weight_grad.data(), bias_grad.data(), workspace);
  }
  void run_all() {
    forward();
    backward_data();
    backward_weights();
  }

  /// Throws Error(internal) if the kernel is wrong. The volume has only one row if the reference would take seconds otherwise.
  static void check(Conv3dShape shape, const std::string& kernel) {
    const double row_products = static_cast<double>(shape.x) * static_cast<double>(shape.weight_count());
    const std::int64_t rows = row_products > kMostRowProducts ? 1 : 4;
    shape.z = std::min(shape.z, rows);
    shape.y = std::min(shape.y, rows);
    Impl own(shape, kernel, {}), expected(shape, "reference", {});
    own.run_all();
    expected.run_all();
    const std::string what = "bench conv, " + own.conv.kernel_names();
    require_close(what + ", output", own.output.span(), expected.output.span());
    require_close(what + ", input gradient", own.input_grad.span(), expected.input_grad.span());
    require_close(what + ", weight gradient", own.weight_grad.span(), expected.weight_grad.span());
    require_close(what + ", bias gradient", own.bias_grad.span(), expected.bias_grad.span());
  }
};

ConvPasses::ConvPasses(const ConvOptions& options) {
  const Conv3dShape shape{options.size[0], options.size[1],   options.size[2],   options.in,
                          options.out,     options.kernel[0], options.kernel[1], options.kernel[2]};
  impl_ = std::make_unique<Impl>(shape, options.name, options.compute);
  Impl::check(shape, impl_->conv.kernel());
}
ConvPasses::~ConvPasses() = default;

void ConvPasses::forward() { impl_->forward(); }
void ConvPasses::backward_data() { impl_->backward_data(); }
void ConvPasses::backward_weights() { impl_->backward_weights(); }
const std::string& ConvPasses::kernel() const noexcept { return impl_->conv.kernel(); }
double ConvPasses::flops() const noexcept { return impl_->conv.flops(); }

}  // namespace floodtide::bench
