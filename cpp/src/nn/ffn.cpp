// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/ffn.hpp"

#include "floodtide/base/error.hpp"
#include "floodtide/nn/limits.hpp"
#include "nn/ffn_plan.hpp"
#include "nn/initialise.hpp"

namespace floodtide::nn {
namespace {

using kernels::Passes;

constexpr double kTapFlops = 27 * 2;  // operations of a 3x3x3 kernel per voxel and pair of channels; multiply and add count two

void check_shapes(const char* what, const Shape<3>& expected, const Shape<3>& shape) {
  FLOODTIDE_REQUIRE(shape == expected, shape_mismatch, "ffn: ", what, " has shape ", Show{shape}, ", expected the image's ",
                    Show{expected});
}

void check_example(const FfnExample& example, const Shape<3>& expected) {
  FLOODTIDE_REQUIRE(!example.image.empty(), shape_mismatch, "ffn: image has shape ", Show{example.image.shape()},
                    ", expected at least one voxel");
  FLOODTIDE_REQUIRE(example.image.shape() == expected, shape_mismatch, "ffn: an image has shape ", Show{example.image.shape()},
                    ", expected the batch's ", Show{expected});
  check_shapes("logits", example.image.shape(), example.logits.shape());
  check_shapes("output", example.image.shape(), example.out_logits.shape());
}

void check_training(std::span<const FfnExample> batch) {
  for (const FfnExample& example : batch) {
    check_example(example, batch[0].image.shape());
    check_shapes("labels", example.image.shape(), example.labels.shape());
    if (!example.weights.empty()) check_shapes("weights", example.image.shape(), example.weights.shape());
  }
}

}  // namespace

ParameterLayout parameter_layout(const FfnOptions& options) {
  require_valid(options);
  ParameterLayout layout;
  const std::int64_t features = options.features;
  for (int module = 0; module < options.depth; ++module) {
    for (const char* half : {"a", "b"}) {
      const std::string scope = str_cat("seed_update/conv", module, "_", half);
      const std::int64_t in = module == 0 && *half == 'a' ? 2 : features;
      layout.add(scope + "/weights", {3, 3, 3, in, features});
      layout.add(scope + "/biases", {features});
    }
  }
  layout.add("seed_update/conv_lom/weights", {1, 1, 1, features, 1});
  layout.add("seed_update/conv_lom/biases", {1});
  return layout;
}

std::size_t training_bytes(const FfnOptions& options, const Vec3& size, std::int64_t examples, int threads) {
  return FfnPlan::training_bytes(options, size, examples, threads, parameter_layout(options).size());
}

struct Ffn::Impl {
  FfnOptions options;
  ParameterLayout layout;
  AlignedBuffer<float> parameters;
  std::unique_ptr<FfnPlan> plan;
  std::optional<Forward> forward = {};  // what use_forward() was called with

  /// Return the plan for this image size, with the current parameters.
  FfnPlan& planned(const Vec3& size, Passes passes) {
    if (!plan || plan->size() != size) {
      plan.reset();  // free the old plan first: both plans together would need twice the memory
      const bool possible = FfnPlan::fft_unsupported(size, options).empty();
      plan = std::make_unique<FfnPlan>(size, options, possible ? forward : Forward::layers);
    }
    plan->prepare(layout, parameters.span(), passes);
    return *plan;
  }
};

Ffn::Ffn(const FfnOptions& options, Initial initial) {
  ParameterLayout layout = parameter_layout(options);
  AlignedBuffer<float> parameters(layout.size());
  if (initial == Initial::random) initialise_glorot(layout, options.seed, parameters.span());
  impl_ = std::make_unique<Impl>(Impl{options, std::move(layout), std::move(parameters), nullptr});
}
Ffn::Ffn(Ffn&&) noexcept = default;
Ffn& Ffn::operator=(Ffn&&) noexcept = default;
Ffn::~Ffn() = default;

const FfnOptions& Ffn::options() const noexcept { return impl_->options; }
const ParameterLayout& Ffn::layout() const noexcept { return impl_->layout; }
std::span<float> Ffn::parameters() noexcept { return impl_->parameters.span(); }
std::span<const float> Ffn::parameters() const noexcept { return std::as_const(impl_->parameters).span(); }
void Ffn::parameters_changed() noexcept {
  if (impl_->plan) impl_->plan->parameters_changed();
}

std::string Ffn::fft_unsupported(const Vec3& size) const { return FfnPlan::fft_unsupported(size, impl_->options); }

void Ffn::use_forward(Forward forward) {
  if (forward == Forward::fft) {
    const std::string reason = fft_unsupported(impl_->options.fov);
    FLOODTIDE_REQUIRE(reason.empty(), unsupported, "ffn: no forward passes by Fourier transforms: ", reason);
  }
  if (forward != impl_->forward) impl_->plan.reset();
  impl_->forward = forward;
}

Forward Ffn::forward_in_use() const {
  if (impl_->forward) return *impl_->forward;
  return FfnPlan::trains_by_fft(impl_->options.fov, impl_->options) ? Forward::fft : Forward::layers;
}

void Ffn::forward(std::span<const FfnExample> batch) {
  for (const FfnExample& example : batch) check_example(example, batch[0].image.shape());
  if (!batch.empty()) impl_->planned(batch[0].image.shape(), Passes::forward).forward(batch);
}

void Ffn::loss_and_gradients(std::span<FfnExample> batch, std::span<float> gradients, double scale, const OnReady& on_ready) {
  check_training(batch);
  FLOODTIDE_REQUIRE(std::ssize(gradients) == layout().size(), shape_mismatch, "ffn: room for ", gradients.size(),
                    " gradients, expected ", layout().size());
  if (batch.empty()) return;
  impl_->planned(batch[0].image.shape(), Passes::all).loss_and_gradients(batch, layout(), gradients, scale, on_ready);
}

void Ffn::loss_and_each_gradients(std::span<FfnExample> batch, std::span<float> out_gradients, double scale) {
  check_training(batch);
  FLOODTIDE_REQUIRE(std::ssize(out_gradients) == std::ssize(batch) * layout().size(), shape_mismatch, "ffn: room for ",
                    out_gradients.size(), " gradients, expected ", layout().size(), " for each of ", batch.size(), " examples");
  if (batch.empty()) return;
  impl_->planned(batch[0].image.shape(), Passes::all).loss_and_each_gradients(batch, layout(), out_gradients, scale);
}

Tensor<std::uint8_t, 5> Ffn::relu_masks() const {
  FLOODTIDE_REQUIRE(impl_->plan, invalid_argument, "ffn: ReLU masks are those of loss_and_gradients, which was not called");
  return impl_->plan->relu_masks();
}

std::size_t Ffn::workspace_bytes() const noexcept { return impl_->plan ? impl_->plan->bytes() : 0; }

std::string Ffn::kernel_names() const {
  if (impl_->plan) return impl_->plan->kernel_names();
  FfnOptions shallow = options();
  shallow.depth = 1;
  return FfnPlan(shallow.fov, shallow, {}).kernel_names();
}

double Ffn::step_flops(const Vec3& size) const noexcept {
  return 3 * forward_flops(size) - kTapFlops * static_cast<double>(volume<3>(size)) * 2 * options().features;
}

double Ffn::forward_flops(const Vec3& size) const noexcept {
  const double features = options().features;
  return kTapFlops * static_cast<double>(volume<3>(size)) * (2 * features + features * features * (2 * options().depth - 1));
}

}  // namespace floodtide::nn
