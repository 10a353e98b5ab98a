// SPDX-License-Identifier: Apache-2.0
#include "nn/ffn_plan.hpp"

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::nn {
namespace {

using kernels::Activation;
using kernels::Conv3dShape;

constexpr std::int64_t kInputChannels = 2;  // image, logits

std::vector<kernels::Conv3d> make_convolutions(const Vec3& size, int depth, int features, kernels::Compute compute) {
  std::vector<kernels::Conv3d> convolutions;
  convolutions.reserve(static_cast<std::size_t>(2 * depth));
  for (int number = 0; number < 2 * depth; ++number) {
    convolutions.emplace_back(convolution_shape(size, features, number), active_isa(), "", compute);
  }
  return convolutions;
}

std::int64_t floats(const Conv3dShape& shape, std::int64_t channels) {
  return kernels::activation_size(shape.z, shape.y, shape.x, channels);
}

}  // namespace

Conv3dShape convolution_shape(const Vec3& size, int features, int number) {
  return {size[0], size[1], size[2], number == 0 ? kInputChannels : features, features};
}

FfnPlan::FfnPlan(const Vec3& size, int depth, int features, kernels::Compute compute)
    : size_(size),
      depth_(depth),
      features_(features),
      convolutions_(make_convolutions(size, depth, features, compute)),
      head_(convolution_shape(size, features, 1)),
      input_(floats(convolutions_[0].shape(), convolutions_[0].shape().stored_in())) {}

void FfnPlan::set_parameters(const ParameterLayout& layout, std::span<const float> parameters, kernels::Passes passes) {
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    convolutions_[i].set_weights(part(parameters, layout.entry(2 * i)).data(), part(parameters, layout.entry(2 * i + 1)).data(),
                                 passes);
  }
  const std::size_t head = 2 * convolutions_.size();
  head_.set_weights(part(parameters, layout.entry(head)), part(parameters, layout.entry(head + 1))[0]);
}

void FfnPlan::reserve(std::size_t activations) {
  const Conv3dShape& shape = convolutions_[0].shape();
  while (activations_.size() < activations) activations_.emplace_back(floats(shape, shape.stored_out()));
}

void FfnPlan::load_input(const float* image, const float* logits) {
  const Conv3dShape& shape = convolutions_[0].shape();
  const std::int64_t rows = shape.z * shape.y;
  const std::int64_t chunks = std::min<std::int64_t>(rows, 32);
  parallel_for(chunks, [&](std::int64_t chunk) {
    const Range range = chunk_range(rows, chunks, chunk);
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      float* out = input_.data() + kernels::activation_offset(shape, shape.stored_in(), row / shape.y, row % shape.y, 0);
      for (std::int64_t x = 0; x < shape.x; ++x) {
        out[x * shape.stored_in()] = image[row * shape.x + x];
        out[x * shape.stored_in() + 1] = logits[row * shape.x + x];
      }
    }
  });
}

void FfnPlan::forward(const float* image, const float* logits, float* out_logits) {
  reserve(2);
  trained_ = false;
  load_input(image, logits);
  float* const inner = activations_[0].data();
  float* const stream = activations_[1].data();
  for (std::size_t i = 0; i < convolutions_.size(); i += 2) {
    const bool first = i == 0;
    convolutions_[i].forward(first ? input_.data() : stream, first ? Activation::none : Activation::relu, nullptr, true, inner);
    convolutions_[i + 1].forward(inner, Activation::none, first ? nullptr : stream, false, stream);
  }
  head_.forward(stream, logits, out_logits);
}

double FfnPlan::loss_and_gradients(const float* image, const float* logits, const float* labels, const float* weights,
                                   const ParameterLayout& layout, std::span<float> gradients, double scale, float* out_logits) {
  reserve(convolutions_.size());
  if (stream_grad_.size() == 0) {
    stream_grad_ = AlignedBuffer<float>(activations_[0].size());
    inner_grad_ = AlignedBuffer<float>(activations_[0].size());
  }
  load_input(image, logits);
  for (std::size_t i = 0; i < convolutions_.size(); i += 2) {
    const float* const before = i == 0 ? input_.data() : activations_[i - 1].data();
    float* const inner = activations_[i].data();
    convolutions_[i].forward(before, i == 0 ? Activation::none : Activation::relu, nullptr, true, inner);
    convolutions_[i + 1].forward(inner, Activation::none, i == 0 ? nullptr : before, false, activations_[i + 1].data());
  }
  const auto grad_of = [&](std::size_t entry) { return part(gradients, layout.entry(entry)); };
  const std::size_t head = 2 * convolutions_.size();
  const double loss = head_.backward(activations_.back().data(), logits, labels, weights, scale, out_logits,
                                     stream_grad_.data(), grad_of(head), grad_of(head + 1)[0]);
  for (std::size_t i = convolutions_.size(); i > 0; i -= 2) {
    const std::size_t a = i - 2, b = i - 1;
    const float* const inner = activations_[a].data();
    convolutions_[b].backward_weights(inner, Activation::none, stream_grad_.data(), grad_of(2 * b).data(),
                                      grad_of(2 * b + 1).data());
    convolutions_[b].backward_data(stream_grad_.data(), inner, false, inner_grad_.data());
    const float* const before = a == 0 ? input_.data() : activations_[a - 1].data();
    convolutions_[a].backward_weights(before, a == 0 ? Activation::none : Activation::relu, inner_grad_.data(),
                                      grad_of(2 * a).data(), grad_of(2 * a + 1).data());
    if (a > 0) convolutions_[a].backward_data(inner_grad_.data(), before, true, stream_grad_.data());
  }
  trained_ = true;
  return loss;
}

Tensor<std::uint8_t, 5> FfnPlan::relu_masks() const {
  FLOODTIDE_REQUIRE(trained_, invalid_argument, "ffn: ReLU masks are those of loss_and_gradients, which was not the last pass");
  const Conv3dShape& shape = convolutions_[0].shape();
  Tensor<std::uint8_t, 5> masks({std::ssize(activations_), shape.z, shape.y, shape.x, features_});
  for (std::int64_t i = 0; i < std::ssize(activations_); ++i) {
    const float* const activation = activations_[static_cast<std::size_t>(i)].data();
    for (std::int64_t row = 0; row < shape.z * shape.y; ++row) {
      const float* in = activation + kernels::activation_offset(shape, shape.stored_out(), row / shape.y, row % shape.y, 0);
      std::uint8_t* out = &masks.view()(i, row / shape.y, row % shape.y, 0, 0);
      for (std::int64_t x = 0; x < shape.x; ++x) {
        for (std::int64_t c = 0; c < features_; ++c) out[x * features_ + c] = in[x * shape.stored_out() + c] > 0 ? 1 : 0;
      }
    }
  }
  return masks;
}

std::size_t FfnPlan::bytes() const noexcept {
  std::int64_t count = input_.size() + stream_grad_.size() + inner_grad_.size();
  for (const AlignedBuffer<float>& activation : activations_) count += activation.size();
  return static_cast<std::size_t>(count) * sizeof(float) + head_.bytes();
}

std::string FfnPlan::kernel_names() const {
  return "conv0_a: " + convolutions_[0].kernel_names() + "; others: " + convolutions_[1].kernel_names();
}

}  // namespace floodtide::nn
