// SPDX-License-Identifier: Apache-2.0
#include "nn/ffn_plan.hpp"

#include <algorithm>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "nn/grid.hpp"

namespace floodtide::nn {
namespace {

using kernels::Activation;
using kernels::Bf16Chain;
using kernels::Compute;
using kernels::Conv3dShape;
using kernels::FftChain;
using kernels::Passes;

constexpr std::int64_t kInputChannels = 2;  // image, logits
// Training passes of fewer tiles are slower by Fourier transforms, because each pass transforms the weights. Measured on a Zen
// 5 with 16 to 64 channels: 1 tile takes 1.4 to 1.7 times as long, 9 tiles 0.9 times, 27 tiles 0.8 to 0.96 times.
constexpr std::int64_t kLeastFftTiles = 9;
constexpr Vec3 kFftTile{kernels::fft::kTile, kernels::fft::kTile, kernels::fft::kTile};

/// Return the shape of a convolution. `number` counts conv0_a, conv0_b, conv1_a, ... from 0.
Conv3dShape convolution_shape(const Vec3& size, int features, int number) {
  return {size[0], size[1], size[2], number == 0 ? kInputChannels : features, features};
}

std::int64_t floats(const Conv3dShape& shape, std::int64_t channels) {
  return kernels::activation_size(shape.z, shape.y, shape.x, channels);
}

std::int64_t activation_floats(const Conv3dShape& shape) { return floats(shape, shape.stored_out()); }

/// Return the number of examples that are computed at the same time.
std::int64_t examples_at_once(const FfnOptions& options, std::int64_t examples, int threads) {
  return options.parallel == Parallel::fovs && examples >= threads ? threads : 1;
}

}  // namespace

std::string FfnPlan::bf16_unsupported(const FfnOptions& options) {
  if (!options.kernel.empty()) return str_cat("all convolutions use the kernel ", options.kernel);
  return Bf16Chain::unsupported(options.features, active_isa());
}

std::string FfnPlan::fft_unsupported(const Vec3& size, const FfnOptions& options) {
  if (options.compute != Compute::fp32) return str_cat("compute is ", name(options.compute));
  if (!options.kernel.empty()) return str_cat("all convolutions use the kernel ", options.kernel);
  return FftChain::unsupported(size, options.features, active_isa());
}

bool FfnPlan::trains_by_fft(const Vec3& size, const FfnOptions& options) {
  return volume<3>(size) >= kLeastFftTiles * volume<3>(kFftTile) && fft_unsupported(size, options).empty();
}

FfnPlan::FfnPlan(const Vec3& size, const FfnOptions& options, std::optional<Forward> forward)
    : size_(size),
      options_(options),
      layers_(static_cast<std::size_t>(2 * options.depth)),
      keeps_chain_weights_(forward == Forward::fft),
      trains_by_fft_(trains_by_fft(size, options)),
      forward_by_fft_(forward ? *forward == Forward::fft : trains_by_fft_),
      head_weights_(static_cast<std::size_t>(options.features)) {
  const bool bf16 = options.compute == Compute::bf16;
  const int count = bf16 || (trains_by_fft_ && forward_by_fft_) ? 1 : 2 * options.depth;
  for (int number = 0; number < count; ++number) {
    convolutions_.emplace_back(convolution_shape(size, options.features, number), active_isa(), options.kernel,
                               bf16 ? Compute::fp32 : options.compute);
  }
  if (forward_by_fft_ || trains_by_fft_) chain_.emplace(size, options.features, *FftChain::kernels_of(active_isa()));
  if (bf16) {
    bf16_.emplace(size, options.features, *Bf16Chain::kernels_of(active_isa()));
    bf16_weights_.resize(layers_);
    bf16_transposed_.resize(layers_);
  }
}

void FfnPlan::prepare(std::uint64_t version, const ParameterLayout& layout, std::span<const float> parameters, Passes passes) {
  if (is_ready(version, passes)) return;
  if (std::exchange(version_, version) != version) forward_ready_ = training_ready_ = false;
  const bool training = passes == Passes::all;
  const auto of = [&](std::size_t entry) { return part(parameters, layout.entry(entry)).data(); };
  const bool chained = training ? trains_by_fft_ : forward_by_fft_;
  if (!training) chain_weights_.clear();
  weights_.clear();
  biases_.clear();
  for (std::size_t i = 0; i < layers_; ++i) {
    weights_.push_back(part(parameters, layout.entry(2 * i)));
    biases_.push_back(part(parameters, layout.entry(2 * i + 1)));
    if (i > 0 && bf16_) {
      bf16_->pack(of(2 * i), bf16_weights_[i]);
      if (training) bf16_->pack_transposed(of(2 * i), bf16_transposed_[i], preparation_);
    } else if (i == 0 || !chained) {
      const bool ready = training_ready_ && (i == 0 || !trains_by_fft_);
      if (!ready) convolutions_[i].set_weights(of(2 * i), of(2 * i + 1), preparation_, passes);
    } else if (!training && keeps_chain_weights_) {
      chain_weights_.push_back(chain_->transformed(of(2 * i)));
    }
  }
  const std::size_t head = 2 * layers_;
  std::ranges::copy(part(parameters, layout.entry(head)), head_weights_.begin());
  head_bias_ = of(head + 1)[0];
  (training ? training_ready_ : forward_ready_) = true;
}

template <class Example, class Body, class After>
void FfnPlan::for_each_example(Lanes& lanes, std::span<Example> batch, Body body, After after) const {
  const auto at_once = static_cast<std::size_t>(examples_at_once(options_, std::ssize(batch), num_threads()));
  while (lanes.size() < at_once) lanes.emplace_back(convolutions_[0].shape());
  for (std::size_t begin = 0; begin < batch.size();) {
    const std::size_t count = batch.size() - begin >= at_once ? at_once : 1;  // the last examples run one by one on all threads
    const auto run = [&](std::int64_t i) {
      Lane& lane = lanes[static_cast<std::size_t>(i)];
      lane.head.set_weights(head_weights_, head_bias_);
      body(lane, begin + static_cast<std::size_t>(i), count == 1);
    };
    if (count == 1) {
      run(0);  // not inside parallel_for: the pass itself uses all threads
    } else {
      parallel_for(static_cast<std::int64_t>(count), run);
    }
    for (std::size_t i = 0; i < count; ++i) after(lanes[i], begin + i);
    begin += count;
  }
}

void FfnPlan::reserve(Lane& lane, std::int64_t activations) const {
  if (bf16_) {
    const std::int64_t size = activations * Bf16Chain::activation_size(size_, options_.features);
    if (lane.rounded.size() < size) lane.rounded = AlignedBuffer<std::uint16_t>(size);
    activations = 2;  // the stream and its gradient
  }
  const std::int64_t size = activations * activation_floats(convolutions_[0].shape());
  if (lane.activations.size() >= size) return;
  lane.activations = {};  // free the old block first: both blocks together would need twice the memory
  lane.activations = AlignedBuffer<float>(size);
}

float* FfnPlan::activation(Lane& lane, std::size_t number) const {
  return lane.activations.data() + static_cast<std::int64_t>(number) * activation_floats(convolutions_[0].shape());
}

std::uint16_t* FfnPlan::rounded(Lane& lane, std::size_t number) const {
  return lane.rounded.data() + static_cast<std::int64_t>(number) * Bf16Chain::activation_size(size_, options_.features);
}

void FfnPlan::reserve_chain(Lane& lane, kernels::Passes passes) const {
  if (lane.chain.bytes() < FftChain::workspace_bytes(size_, options_.features, passes))
    lane.chain = chain_->make_workspace(passes);
}

void FfnPlan::load_input(Lane& lane, const FfnExample& example) const {
  const Conv3dShape& shape = convolutions_[0].shape();
  const std::int64_t channels = shape.stored_in();
  for_each_row(shape.z * shape.y, [&](std::int64_t row) {
    float* out = lane.input.data() + kernels::activation_offset(shape, channels, row / shape.y, row % shape.y, 0);
    for (std::int64_t x = 0; x < shape.x; ++x) {
      out[x * channels] = example.image.data()[row * shape.x + x];
      out[x * channels + 1] = example.logits.data()[row * shape.x + x];
    }
  });
}

void FfnPlan::forward(Lanes& lanes, std::span<const FfnExample> batch) const {
  const auto run = [&](Lane& lane, std::size_t number, bool) {
    reserve(lane, 2);
    lane.trained = false;
    load_input(lane, batch[number]);
    if (forward_by_fft_) reserve_chain(lane, kernels::Passes::forward);
    convolve(lane, false, forward_by_fft_);
    lane.head.forward(activation(lane, bf16_ ? 0 : 1), batch[number]);
  };
  for_each_example(lanes, batch, run, [](Lane&, std::size_t) {});
}

void FfnPlan::convolve_bf16(Lane& lane, bool keep) const {
  const auto output = [&](std::size_t i) { return rounded(lane, keep ? i : i % 2); };
  float* const stream = activation(lane, 0);
  convolutions_[0].forward(lane.input.data(), Activation::none, nullptr, true, stream, lane.workspace);
  bf16_->round(stream, output(0));
  for (std::size_t i = 1; i < layers_; ++i) {
    const bool to_stream = i % 2 == 1;
    bf16_->convolve(output(i - 1), bf16_weights_[i],
                    {.bias = biases_[i].data(),
                     .residual = to_stream && i > 1 ? stream : nullptr,
                     .out = to_stream ? stream : nullptr,
                     .out_rounded = keep || i + 1 < layers_ ? output(i) : nullptr,
                     .rectify = true});
  }
}

void FfnPlan::convolve(Lane& lane, bool keep, bool by_fft) const {
  if (bf16_) return convolve_bf16(lane, keep);
  const auto output = [&](std::size_t i) { return activation(lane, keep ? i : i % 2); };
  for (std::size_t i = 0; i < layers_; ++i) {
    const bool to_stream = i % 2 == 1;  // the other convolutions are the first half of a module
    const float* const before = i > 1 ? output(i - 1 - i % 2) : nullptr;  // the stream before this module
    float* const out = output(i);
    if (i == 0) {
      convolutions_[0].forward(lane.input.data(), Activation::none, nullptr, true, out, lane.workspace);
      if (by_fft) chain_->begin(out, lane.chain);
    } else if (by_fft) {
      if (keeps_chain_weights_ && !keep) {
        chain_->multiply(chain_weights_[i - 1], lane.chain);
      } else {
        chain_->multiply(weights_[i].data(), lane.chain);
      }
      chain_->finish({.bias = biases_[i].data(),
                      .residual = to_stream ? before : nullptr,
                      .out = to_stream ? out : nullptr,
                      .out_rectified = keep && !to_stream ? out : nullptr,
                      .next = i + 1 == layers_ ? FftChain::Next::nothing : FftChain::Next::rectified},
                     lane.chain);
    } else if (to_stream) {
      convolutions_[i].forward(output(i - 1), Activation::none, before, false, out, lane.workspace);
    } else {
      convolutions_[i].forward(before, Activation::relu, nullptr, true, out, lane.workspace);
    }
  }
}

void FfnPlan::loss_and_gradients(Lanes& lanes, std::span<FfnExample> batch, const ParameterLayout& layout,
                                 std::span<float> gradients, double scale, const OnReady& on_ready) const {
  // Each example has separate gradients, which are added in the order of the examples. The sum therefore does not depend on
  // how many examples run at the same time.
  const auto add = [&](const Lane& lane, std::size_t entry) {
    const std::span<float> to = part(gradients, layout.entry(entry));
    const std::span<const float> from = part(lane.gradients.span(), layout.entry(entry));
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  bool added = false;  // true: the gradients of the last example were added entry by entry
  for_each_example(
      lanes, batch,
      [&](Lane& lane, std::size_t number, bool alone) {
        const auto finish = [&](std::size_t entry) {
          add(lane, entry);
          if (on_ready) on_ready(entry);
        };
        const bool last = alone && number + 1 == batch.size();
        if (last) added = true;
        train(lane, batch[number], layout, scale, last ? OnReady(std::cref(finish)) : OnReady());
      },
      [&](const Lane& lane, std::size_t number) {
        if (number + 1 == batch.size() && added) return;
        for (std::size_t entry = 0; entry < layout.entries().size(); ++entry) add(lane, entry);
      });
  if (added || !on_ready) return;
  for (std::size_t entry = layout.entries().size(); entry > 0; --entry) on_ready(entry - 1);
}

void FfnPlan::loss_and_each_gradients(Lanes& lanes, std::span<FfnExample> batch, const ParameterLayout& layout,
                                      std::span<float> out_gradients, double scale) const {
  const auto parameters = static_cast<std::size_t>(layout.size());
  for_each_example(
      lanes, batch, [&](Lane& lane, std::size_t number, bool) { train(lane, batch[number], layout, scale, {}); },
      [&](const Lane& lane, std::size_t number) {
        std::ranges::copy(lane.gradients.span(), out_gradients.subspan(number * parameters, parameters).begin());
      });
}

void FfnPlan::train(Lane& lane, FfnExample& example, const ParameterLayout& layout, double scale,
                    const OnReady& on_ready) const {
  reserve(lane, 2 * options_.depth + 2);
  if (trains_by_fft_) reserve_chain(lane, kernels::Passes::all);
  if (lane.gradients.size() == 0) lane.gradients = AlignedBuffer<float>(layout.size());
  std::ranges::fill(lane.gradients.span(), 0.0F);
  load_input(lane, example);
  convolve(lane, true, trains_by_fft_);
  const std::size_t head = 2 * layers_;
  lane.head.backward(activation(lane, bf16_ ? 0 : layers_ - 1), example, scale, activation(lane, bf16_ ? 1 : layers_),
                     part(lane.gradients.span(), layout.entry(head)), part(lane.gradients.span(), layout.entry(head + 1))[0]);
  const auto ready = [&](std::size_t weights_entry) {
    if (!on_ready) return;
    on_ready(weights_entry + 1);  // biases
    on_ready(weights_entry);
  };
  ready(head);
  bf16_ ? train_backward_bf16(lane, layout, ready) : train_backward(lane, layout, ready);
  lane.trained = true;
}

template <class Ready>
void FfnPlan::train_backward(Lane& lane, const ParameterLayout& layout, Ready ready) const {
  float* const stream_grad = activation(lane, layers_);
  float* const inner_grad = activation(lane, layers_ + 1);
  const auto add_gradients = [&](std::size_t i, const float* input, Activation on_input, const float* output_grad) {
    const auto grad_of = [&](std::size_t entry) { return part(lane.gradients.span(), layout.entry(entry)).data(); };
    float *const weight_grad = grad_of(2 * i), *const bias_grad = grad_of(2 * i + 1);
    if (i > 0 && trains_by_fft_) {  // the spectrum is that of output_grad, and becomes that of the gradient by the input
      chain_->backward({weights_[i].data(), input, on_input, weight_grad, bias_grad}, lane.chain);
    } else {
      convolutions_[i].backward_weights(input, on_input, output_grad, weight_grad, bias_grad, lane.workspace);
    }
    ready(2 * i);
  };
  /// Computes the gradient by the input of convolution i > 0, after add_gradients().
  const auto backward_data = [&](std::size_t i, const float* grad, const float* mask, bool accumulate, float* out) {
    if (!trains_by_fft_) return convolutions_[i].backward_data(grad, mask, accumulate, out, lane.workspace);
    chain_->finish({.mask = mask,
                    .residual = accumulate ? out : nullptr,
                    .out = out,
                    .next = i == 1 ? FftChain::Next::nothing : FftChain::Next::out},
                   lane.chain);
  };
  if (trains_by_fft_) chain_->begin(stream_grad, lane.chain);
  for (std::size_t i = layers_; i > 0; i -= 2) {
    const std::size_t a = i - 2, b = i - 1;
    const float* const inner = activation(lane, a);
    const float* const before = a == 0 ? lane.input.data() : activation(lane, a - 1);
    add_gradients(b, inner, Activation::none, stream_grad);
    backward_data(b, stream_grad, inner, false, inner_grad);
    add_gradients(a, before, a == 0 ? Activation::none : Activation::relu, inner_grad);
    if (a > 0) backward_data(a, inner_grad, before, true, stream_grad);
  }
}

template <class Ready>
void FfnPlan::train_backward_bf16(Lane& lane, const ParameterLayout& layout, Ready ready) const {
  float* const stream_grad = activation(lane, 1);
  std::uint16_t* const stream = rounded(lane, layers_);  // gradients as operands
  std::uint16_t* const inner = rounded(lane, layers_ + 1);
  const auto grad_of = [&](std::size_t entry) { return part(lane.gradients.span(), layout.entry(entry)).data(); };
  const auto add_gradients = [&](std::size_t i, const std::uint16_t* output_grad) {
    bf16_->backward_weights(rounded(lane, i - 1), output_grad, grad_of(2 * i), grad_of(2 * i + 1), lane.workspace);
    ready(2 * i);
  };
  bf16_->round(stream_grad, stream);
  for (std::size_t i = layers_ - 1; i > 1; i -= 2) {
    add_gradients(i, stream);
    bf16_->convolve(stream, bf16_transposed_[i], {.mask = rounded(lane, i - 1), .out_rounded = inner});
    add_gradients(i - 1, inner);
    bf16_->convolve(inner, bf16_transposed_[i - 1],
                    {.mask = rounded(lane, i - 2), .residual = stream_grad, .out = stream_grad, .out_rounded = stream});
  }
  add_gradients(1, stream);
  float* const first = activation(lane, 0);  // the stream is no longer needed
  bf16_->convolve(stream, bf16_transposed_[1], {.mask = rounded(lane, 0), .out = first});
  convolutions_[0].backward_weights(lane.input.data(), Activation::none, first, grad_of(0), grad_of(1), lane.workspace);
  ready(0);
}

Tensor<std::uint8_t, 5> FfnPlan::relu_masks(const Vec3& size, const FfnOptions& options, const Lane& lane) {
  const Conv3dShape shape = convolution_shape(size, options.features, 0);
  const std::int64_t layers = 2 * options.depth, channels = options.features;
  Tensor<std::uint8_t, 5> masks({layers, shape.z, shape.y, shape.x, channels});
  const auto fill = [&](const auto* all, std::int64_t activation, auto is_positive) {
    for (std::int64_t i = 0; i < layers; ++i) {
      for (std::int64_t row = 0; row < shape.z * shape.y; ++row) {
        const auto* in =
            all + i * activation + kernels::activation_offset(shape, shape.stored_out(), row / shape.y, row % shape.y, 0);
        std::uint8_t* out = &masks.view()(i, row / shape.y, row % shape.y, 0, 0);
        for (std::int64_t x = 0; x < shape.x; ++x) {
          for (std::int64_t c = 0; c < channels; ++c)
            out[x * channels + c] = std::uint8_t{is_positive(in[x * shape.stored_out() + c])};
        }
      }
    }
  };
  if (options.compute == Compute::bf16) {
    fill(lane.rounded.data(), Bf16Chain::activation_size(size, channels),
         [](std::uint16_t bits) { return bits > 0 && bits < 0x8000; });
  } else {
    fill(lane.activations.data(), activation_floats(shape), [](float value) { return value > 0; });
  }
  return masks;
}

std::size_t FfnPlan::bytes(const Lanes& lanes) noexcept {
  std::size_t total = 0;
  for (const Lane& lane : lanes) {
    const std::int64_t count = lane.input.size() + lane.activations.size() + lane.gradients.size();
    total += static_cast<std::size_t>(count) * sizeof(float) + static_cast<std::size_t>(lane.chain.bytes()) +
             lane.rounded.span().size_bytes() + lane.head.bytes();
  }
  return total;
}

std::size_t FfnPlan::training_bytes(const FfnOptions& options, const Vec3& size, std::int64_t examples, int threads,
                                    std::int64_t parameters) {
  const Conv3dShape first = convolution_shape(size, options.features, 0);
  const std::int64_t outputs = 2 * options.depth + 2;  // with stream_grad and inner_grad
  const bool bf16 = options.compute == Compute::bf16;
  const std::int64_t activations = bf16 ? 2 : outputs;
  const std::int64_t rounded = bf16 ? outputs * Bf16Chain::activation_size(size, options.features) : 0;
  const std::int64_t chain =
      trains_by_fft(size, options) ? FftChain::workspace_bytes(size, options.features, kernels::Passes::all) : 0;
  const std::int64_t lane = floats(first, first.stored_in()) + activations * activation_floats(first) + parameters;
  return static_cast<std::size_t>(examples_at_once(options, examples, threads)) *
         (static_cast<std::size_t>(lane) * sizeof(float) + static_cast<std::size_t>(chain) +
          static_cast<std::size_t>(rounded) * sizeof(std::uint16_t) + Head::bytes_of(first));
}

std::string FfnPlan::kernel_names() const {
  if (bf16_) return "conv0_a: " + convolutions_[0].kernel_names() + "; others: amx_bf16";
  return "conv0_a: " + convolutions_[0].kernel_names() + "; others: " +
         (trains_by_fft_ ? "forward fft, backward_data fft, backward_weights fft" : convolutions_[1].kernel_names());
}

}  // namespace floodtide::nn
