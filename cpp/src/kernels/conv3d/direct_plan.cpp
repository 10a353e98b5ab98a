// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "kernels/conv3d/direct.hpp"
#include "kernels/conv3d/plan.hpp"

namespace floodtide::kernels {
namespace {

// Numbers of chunks. They are fixed, so that results do not depend on the number of threads. Each chunk of backward-weights has
// its own partial sums.
constexpr std::int64_t kForwardChunks = 128;
constexpr std::int64_t kWeightsChunks = 16;

/// Direct convolution with the kernels of one instruction-set level.
class DirectPlan final : public Conv3dPlan {
 public:
  DirectPlan(const Conv3dShape& shape, const direct::LevelKernels& kernels)
      : shape_(shape),
        kernels_(kernels.for_outputs(shape.out_channels)),
        backward_kernels_(kernels.for_outputs(shape.in_channels)),
        taps_(shape.taps()),
        rows_(shape.z * shape.y),
        in_(shape.stored_in()),
        out_(shape.stored_out()),
        computed_(computed(kernels_, shape.out_channels)),
        forward_weights_(taps_ * in_ * out_),
        backward_weights_(taps_ * in_ * out_),
        bias_(out_),
        zero_bias_(in_) {}

  void set_weights(const float* weights, const float* bias, Passes passes, Workspace&) override {
    const std::int64_t in = shape_.in_channels, out = shape_.out_channels;
    std::copy_n(bias, out, bias_.data());
    pack(kernels_, out, in, forward_weights_.data(), [=](std::int64_t tap, std::int64_t from, std::int64_t to) {
      return to < out ? weights[(tap * in + from) * out + to] : 0.0F;
    });
    if (passes == Passes::forward) return;
    pack(backward_kernels_, in, out, backward_weights_.data(), [=, this](std::int64_t tap, std::int64_t from, std::int64_t to) {
      return to < in ? weights[((taps_ - 1 - tap) * in + to) * out + from] : 0.0F;
    });
  }

  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out,
               Workspace&) override {
    direct::ForwardTask task{rows_of(in_, shape_.in_channels, out_, computed_)};
    task.padding = out_ - computed_;
    task.input = input + origin(in_);
    task.weights = forward_weights_.data();
    task.bias = bias_.data();
    task.residual = residual == nullptr ? nullptr : residual + origin(out_);
    task.out = out + origin(out_);
    task.relu_input = on_input == Activation::relu;
    task.relu_output = relu_output;
    run(kernels_, task);
  }

  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad,
                     Workspace&) override {
    const std::int64_t grads = computed(backward_kernels_, shape_.in_channels);
    direct::ForwardTask task{rows_of(out_, shape_.out_channels, in_, grads)};
    task.padding = in_ - grads;
    task.input = output_grad + origin(out_);
    task.weights = backward_weights_.data();
    task.bias = zero_bias_.data();
    task.mask = relu_mask == nullptr ? nullptr : relu_mask + origin(in_);
    task.out = out_input_grad + origin(in_);
    task.residual = accumulate ? task.out : nullptr;
    run(backward_kernels_, task);
  }

  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad, Workspace& workspace) override {
    const std::int64_t chunks = std::min(kWeightsChunks, rows_);
    const std::int64_t in = shape_.in_channels;
    const std::int64_t weight_count = taps_ * in * computed_;
    float* const weight_sums = workspace.floats(sums_floats());    // [chunk][tap][in][computed_]
    float* const bias_sums = weight_sums + chunks * weight_count;  // [chunk][computed_]
    parallel_for(chunks, [&](std::int64_t chunk) {
      const Range rows = chunk_range(rows_, chunks, chunk);
      direct::WeightsTask task{rows_of(in_, in, out_, computed_)};
      task.row_begin = rows.begin;
      task.row_end = rows.end;
      task.input = input + origin(in_);
      task.output_grad = output_grad + origin(out_);
      task.weight_grad = weight_sums + chunk * weight_count;
      task.bias_grad = bias_sums + chunk * computed_;
      task.relu_input = on_input == Activation::relu;
      std::fill_n(task.weight_grad, weight_count, 0.0F);
      std::fill_n(task.bias_grad, computed_, 0.0F);
      kernels_.weights(task);
    });
    parallel_for(taps_, [&](std::int64_t tap) {
      add_in_chunk_order(weight_sums + tap * in * computed_, weight_count, chunks, in,
                         out_weight_grad + tap * in * shape_.out_channels);
    });
    add_in_chunk_order(bias_sums, computed_, chunks, 1, out_bias_grad);
  }

 private:
  /// Return the number of output channels that the kernels compute for `channels` channels.
  static std::int64_t computed(const direct::DirectKernels& kernels, std::int64_t channels) {
    return (channels + kernels.multiple - 1) / kernels.multiple * kernels.multiple;
  }

  [[nodiscard]] std::int64_t origin(std::int64_t channels) const { return activation_offset(shape_, channels, 0, 0, 0); }

  /// Packs weights for the kernels: [group of output channels][kz, ky][input channel][kx][channel of the group].
  template <class Weight>
  void pack(const direct::DirectKernels& kernels, std::int64_t used_out, std::int64_t used_in, float* out,
            Weight weight) const {
    const std::int64_t out_channels = computed(kernels, used_out);
    for (std::int64_t begin = 0; begin < out_channels; begin += kernels.group) {
      const std::int64_t end = std::min(begin + kernels.group, out_channels);
      for (std::int64_t row = 0; row < taps_; row += shape_.kernel_x) {
        for (std::int64_t from = 0; from < used_in; ++from) {
          for (std::int64_t kx = 0; kx < shape_.kernel_x; ++kx) {
            for (std::int64_t to = begin; to < end; ++to) *out++ = weight(row + kx, from, to);
          }
        }
      }
    }
  }

  /// Return what the tasks from `in_stored` to `out_stored` stored channels have in common.
  [[nodiscard]] direct::Rows rows_of(std::int64_t in_stored, std::int64_t used_in, std::int64_t out_stored,
                                     std::int64_t out_channels) const {
    return {.y = shape_.y,
            .x = shape_.x,
            .in_strides = direct::dense_strides(shape_.y, shape_.x, in_stored),
            .out_strides = direct::dense_strides(shape_.y, shape_.x, out_stored),
            .used_in = used_in,
            .out_channels = out_channels,
            .kernel_z = shape_.kernel_z,
            .kernel_y = shape_.kernel_y,
            .kernel_x = shape_.kernel_x};
  }

  void run(const direct::DirectKernels& kernels, const direct::ForwardTask& whole) const {
    const std::int64_t chunks = std::min(kForwardChunks, rows_);
    parallel_for(chunks, [&](std::int64_t chunk) {
      direct::ForwardTask task = whole;
      const Range rows = chunk_range(rows_, chunks, chunk);
      task.row_begin = rows.begin;
      task.row_end = rows.end;
      kernels.forward(task);
    });
  }

  [[nodiscard]] std::int64_t sums_floats() const {
    return std::min(kWeightsChunks, rows_) * (taps_ * shape_.in_channels + 1) * computed_;
  }

  /// Adds `chunks` arrays [rows, computed channels], which are `distance` floats apart, to `out` [rows, channels].
  void add_in_chunk_order(const float* sums, std::int64_t distance, std::int64_t chunks, std::int64_t rows, float* out) const {
    std::array<float, direct::kMaxChannels> total;
    for (std::int64_t row = 0; row < rows; ++row) {
      total.fill(0.0F);
      // Each array contributes a whole row, because the same element of all arrays may map to one set of the cache.
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const float* part = sums + chunk * distance + row * computed_;
        for (std::int64_t channel = 0; channel < shape_.out_channels; ++channel) {
          total[static_cast<std::size_t>(channel)] += part[channel];
        }
      }
      for (std::int64_t channel = 0; channel < shape_.out_channels; ++channel) {
        out[row * shape_.out_channels + channel] += total[static_cast<std::size_t>(channel)];
      }
    }
  }

  Conv3dShape shape_;
  const direct::DirectKernels& kernels_;           // for forward and backward-weights
  const direct::DirectKernels& backward_kernels_;  // for backward-data, whose outputs are the input channels
  std::int64_t taps_;
  std::int64_t rows_;
  std::int64_t in_, out_;  // numbers of stored channels
  std::int64_t computed_;  // number of output channels that forward and backward-weights compute
  AlignedBuffer<float> forward_weights_;
  AlignedBuffer<float> backward_weights_;
  AlignedBuffer<float> bias_;
  AlignedBuffer<float> zero_bias_;
};

}  // namespace

std::string direct_unsupported(const Conv3dShape& shape) {
  if (std::max(shape.in_channels, shape.out_channels) <= direct::kMaxChannels) return "";
  return str_cat("more than ", direct::kMaxChannels, " channels");
}

std::unique_ptr<Conv3dPlan> make_direct_plan(const Conv3dShape& shape, const direct::LevelKernels& kernels) {
  return std::make_unique<DirectPlan>(shape, kernels);
}

}  // namespace floodtide::kernels
