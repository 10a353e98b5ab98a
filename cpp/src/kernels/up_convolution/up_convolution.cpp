// SPDX-License-Identifier: Apache-2.0
#include "kernels/up_convolution/up_convolution.hpp"

#include <algorithm>

#include "floodtide/base/parallel.hpp"

namespace floodtide::kernels {
namespace {

// Numbers of chunks of rows. They are fixed, so that results do not depend on the number of threads. Each chunk of
// backward-weights has its own partial sums.
constexpr std::int64_t kForwardChunks = 128;
constexpr std::int64_t kWeightsChunks = 8;

const direct::DirectKernels& kernels_at(Isa level) {
#if defined(__x86_64__)
  if (level == Isa::avx512) return direct::kAvx512;
  if (level == Isa::avx2) return direct::kAvx2;
#endif
  static_cast<void>(level);
  return direct::kGeneric;
}

/// Packs weight(from, to) as 1x1x1 weights of the direct kernels: [group of outputs][input][channels of the group].
template <class Weight>
void pack(std::int64_t from_count, std::int64_t to_count, std::int64_t group, float* out, Weight weight) {
  for (std::int64_t begin = 0; begin < to_count; begin += group) {
    const std::int64_t end = std::min(begin + group, to_count);
    for (std::int64_t from = 0; from < from_count; ++from) {
      for (std::int64_t to = begin; to < end; ++to) *out++ = weight(from, to);
    }
  }
}

}  // namespace

UpConvolution::UpConvolution(const UpConvolutionShape& shape, Isa level)
    : shape_(shape),
      kernels_(&kernels_at(level)),
      forward_weights_(volume<3>(shape.pool) * shape.in_channels * shape.out_channels),
      backward_weights_(forward_weights_.size()),
      bias_(shape.out_channels),
      zero_bias_(shape.in_channels) {}

void UpConvolution::set_weights(const float* weights, const float* bias, Passes passes) {
  const std::int64_t in = shape_.in_channels, out = shape_.out_channels;
  std::copy_n(bias, out, bias_.data());
  parallel_for(taps(), [&](std::int64_t tap) {
    const float* const from = weights + tap * in * out;
    pack(in, out, kernels_->group, forward_weights_.data() + tap * in * out,
         [=](std::int64_t i, std::int64_t o) { return from[i * out + o]; });
    if (passes == Passes::forward) return;
    pack(out, in, kernels_->group, backward_weights_.data() + tap * in * out,
         [=](std::int64_t o, std::int64_t i) { return from[i * out + o]; });
  });
}

std::int64_t UpConvolution::out_offset(std::int64_t tap) const noexcept {
  const Vec3& pool = shape_.pool;
  const Conv3dShape out{shape_.z * pool[0], shape_.y * pool[1], shape_.x * pool[2], 1, 1};
  return activation_offset(out, shape_.out_stored, tap / (pool[1] * pool[2]), tap / pool[2] % pool[1], tap % pool[2]) +
         shape_.out_begin;
}

direct::Rows UpConvolution::task_rows(bool backward) const noexcept {
  const Vec3& pool = shape_.pool;
  const direct::Strides in = direct::dense_strides(shape_.y, shape_.x, shape_.in_channels);
  const direct::Strides dense = direct::dense_strides(shape_.y * pool[1], shape_.x * pool[2], shape_.out_stored);
  const direct::Strides out{dense.voxel * pool[2], dense.row * pool[1], dense.plane * pool[0]};
  return {.y = shape_.y,
          .x = shape_.x,
          .in_strides = backward ? out : in,
          .out_strides = backward ? in : out,
          .used_in = backward ? shape_.out_channels : shape_.in_channels,
          .out_channels = backward ? shape_.in_channels : shape_.out_channels,
          .kernel_z = 1,
          .kernel_y = 1,
          .kernel_x = 1};
}

std::int64_t UpConvolution::out_floats() const noexcept {
  const Vec3& pool = shape_.pool;
  return activation_size(shape_.z * pool[0], shape_.y * pool[1], shape_.x * pool[2], shape_.out_stored);
}

template <class Body>
void UpConvolution::for_each_row(bool backward, Body body) const {
  const std::int64_t of_example = shape_.z * shape_.y, rows = shape_.examples * of_example,
                     chunks = std::min(kForwardChunks, rows);
  parallel_for(chunks, [&](std::int64_t chunk) {
    const Range range = chunk_range(rows, chunks, chunk);
    direct::ForwardTask task{task_rows(backward)};
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      task.row_begin = row % of_example;
      task.row_end = task.row_begin + 1;
      for (std::int64_t tap = 0; tap < taps(); ++tap) body(task, row / of_example, tap);
    }
  });
}

void UpConvolution::forward(const float* input, float* out) const {
  for_each_row(false, [&](direct::ForwardTask& task, std::int64_t example, std::int64_t tap) {
    task.input = input + example * in_floats() + in_offset();
    task.weights = forward_weights_.data() + tap * shape_.in_channels * shape_.out_channels;
    task.bias = bias_.data();
    task.out = out + example * out_floats() + out_offset(tap);
    kernels_->forward(task);
  });
}

void UpConvolution::backward_data(const float* output_grad, float* out_input_grad) const {
  for_each_row(true, [&](direct::ForwardTask& task, std::int64_t example, std::int64_t tap) {
    task.input = output_grad + example * out_floats() + out_offset(tap);
    task.weights = backward_weights_.data() + tap * shape_.in_channels * shape_.out_channels;
    task.bias = zero_bias_.data();
    task.out = out_input_grad + example * in_floats() + in_offset();
    task.residual = tap == 0 ? nullptr : task.out;
    kernels_->forward(task);
  });
}

void UpConvolution::backward_weights(const float* input, const float* output_grad, float* out_weight_grad, float* out_bias_grad,
                                     Workspace& workspace) const {
  const std::int64_t of_example = shape_.z * shape_.y, rows = shape_.examples * of_example;
  const std::int64_t chunks = std::min(kWeightsChunks, rows);
  const std::int64_t weights = taps() * shape_.in_channels * shape_.out_channels;
  const std::int64_t floats = weights + shape_.out_channels;
  float* const sums = workspace.floats(sums_floats());  // for each chunk: gradients of the weights, then of the biases
  parallel_for(chunks, [&](std::int64_t chunk) {
    const Range range = chunk_range(rows, chunks, chunk);
    direct::WeightsTask task{task_rows(false)};
    float* const here = sums + chunk * floats;
    std::fill_n(here, floats, 0.0F);
    task.bias_grad = here + weights;
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      task.row_begin = row % of_example;
      task.row_end = task.row_begin + 1;
      task.input = input + row / of_example * in_floats() + in_offset();
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        task.output_grad = output_grad + row / of_example * out_floats() + out_offset(tap);
        task.weight_grad = here + tap * shape_.in_channels * shape_.out_channels;
        kernels_->weights(task);
      }
    }
  });
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const float* const from = sums + chunk * floats;
    for (std::int64_t i = 0; i < weights; ++i) out_weight_grad[i] += from[i];
    for (std::int64_t i = 0; i < shape_.out_channels; ++i) out_bias_grad[i] += from[weights + i];
  }
}

std::int64_t UpConvolution::sums_floats() const noexcept {
  return std::min(kWeightsChunks, shape_.examples * shape_.z * shape_.y) *
         (taps() * shape_.in_channels * shape_.out_channels + shape_.out_channels);
}

}  // namespace floodtide::kernels
