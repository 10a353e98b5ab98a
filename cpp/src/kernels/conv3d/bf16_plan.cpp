// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "kernels/conv3d/bf16.hpp"
#include "kernels/conv3d/plan.hpp"
#include "kernels/transpose_weights.hpp"

namespace floodtide::kernels {
namespace {

using bf16::Plane;

// Numbers of chunks. They are fixed, so that results do not depend on the number of threads. Each chunk of segments has its own
// partial sums of the weight gradients.
constexpr std::int64_t kChunks = 128;
constexpr std::int64_t kWeightsChunks = 16;
constexpr std::int64_t kOutputs = 2 * bf16::kPanel;     // output channels of a task of backward-weights
constexpr std::int64_t kColumns = 8 * bf16::kTile;      // voxels of a task that transposes
constexpr std::int64_t kHalvesOfLine = kAlignment / 2;  // bfloat16 numbers in a cache line

std::int64_t parts(std::int64_t total, std::int64_t part) { return (total + part - 1) / part; }
/// Return the floats of memory for bfloat16 numbers, in whole cache lines.
std::int64_t floats_of(std::int64_t halves) { return bf16::round_up(halves, kHalvesOfLine) / 2; }
std::uint16_t* halves_at(float* memory) { return reinterpret_cast<std::uint16_t*>(memory); }

/// Direct convolution with bfloat16 operands and float sums.
class Bf16Plan final : public Conv3dPlan {
 public:
  Bf16Plan(const Conv3dShape& shape, const bf16::Kernels& kernels)
      : shape_(shape),
        kernels_(kernels),
        plane_{shape.z, shape.y, shape.x, shape.kernel_z, shape.kernel_y, shape.kernel_x},
        in_(shape.stored_in()),
        out_(shape.stored_out()),
        segments_(shape.z * bf16::segments(plane_)),
        forward_weights_(packed(shape.in_channels, out_)),
        bias_(out_),
        zero_bias_(in_) {
    const std::int64_t channels = std::max(shape.in_channels, shape.out_channels);
    static_cast<void>(thread_scratch(std::max({floats_of(bf16::converted_input(plane_, bf16::converted_channels(channels))),
                                               weights_floats(), shape.weight_count()})));
  }

  void set_weights(const float* weights, const float* bias, Passes passes) override {
    const std::int64_t in = shape_.in_channels, out = shape_.out_channels;
    std::copy_n(bias, out, bias_.data());
    pack(weights, in, out, forward_weights_.data());
    if (passes == Passes::forward) return;
    if (backward_weights_.size() == 0) backward_weights_ = AlignedBuffer<std::uint16_t>(packed(out, in_));
    float* const transposed = thread_scratch(shape_.weight_count());
    transpose_weights(weights, shape_.taps(), in, out, transposed);
    pack(transposed, out, in, backward_weights_.data());
  }

  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out) override {
    bf16::ForwardTask task{};
    task.stored_out = out_;
    task.weights = forward_weights_.data();
    task.bias = bias_.data();
    task.residual = residual;
    task.out = out;
    task.relu_output = relu_output;
    run(input, on_input, in_, shape_.in_channels, task);
  }

  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad) override {
    bf16::ForwardTask task{};
    task.stored_out = in_;
    task.weights = backward_weights_.data();
    task.bias = zero_bias_.data();
    task.mask = relu_mask;
    task.residual = accumulate ? out_input_grad : nullptr;
    task.out = out_input_grad;
    run(output_grad, Activation::none, out_, shape_.out_channels, task);
  }

  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad) override {
    float* const scratch = thread_scratch(weights_floats());
    std::uint16_t* const transposed = halves_at(scratch);
    std::uint16_t* const paired = halves_at(scratch + floats_of(bf16::transposed_input(plane_, in_)));
    float* const bias_sums = scratch + floats_of(bf16::transposed_input(plane_, in_)) +
                             floats_of(bf16::paired_gradients(plane_, out_));  // [segment][out_]
    float* const sums = bias_sums + segments_ * out_;                          // [chunk][tap][in_][out_]
    transpose(input, on_input, transposed);
    for_each(segments_, [&](std::int64_t segment) {
      kernels_.pair({plane_, segment, out_, output_grad, paired, bias_sums + segment * out_});
    });
    const std::int64_t chunks = weights_chunks(), count = shape_.taps() * in_ * out_;
    const std::int64_t columns = parts(out_, kOutputs);
    parallel_for(chunks * columns, [&](std::int64_t index) {
      const std::int64_t chunk = index / columns, begin = index % columns * kOutputs;
      const Range range = chunk_range(segments_, chunks, chunk);
      bf16::WeightsTask task{};
      task.plane = plane_;
      task.stored_in = in_;
      task.stored_out = out_;
      task.out_begin = begin;
      task.out_end = std::min(begin + kOutputs, out_);
      task.segment_begin = range.begin;
      task.segment_end = range.end;
      task.input = transposed;
      task.output_grad = paired;
      task.sums = sums + chunk * count;
      kernels_.weights(task);
    });
    parallel_for(shape_.taps(), [&](std::int64_t tap) {
      for (std::int64_t in = 0; in < shape_.in_channels; ++in) {
        const float* const row = sums + (tap * in_ + in) * out_;
        float* const to = out_weight_grad + (tap * shape_.in_channels + in) * shape_.out_channels;
        add_in_order(row, count, chunks, to);
      }
    });
    add_in_order(bias_sums, out_, segments_, out_bias_grad);
  }

 private:
  [[nodiscard]] std::int64_t packed(std::int64_t in, std::int64_t stored_out) const {
    return bf16::packed_weights(plane_, bf16::converted_channels(in), stored_out);
  }
  [[nodiscard]] std::int64_t weights_chunks() const { return std::min(kWeightsChunks, segments_); }
  [[nodiscard]] std::int64_t weights_floats() const {
    return floats_of(bf16::transposed_input(plane_, in_)) + floats_of(bf16::paired_gradients(plane_, out_)) + segments_ * out_ +
           weights_chunks() * shape_.taps() * in_ * out_;
  }

  /// Calls body(item) for all items, in parallel.
  template <class Body>
  static void for_each(std::int64_t items, Body body) {
    const std::int64_t chunks = std::min(kChunks, items);
    parallel_for(chunks, [&](std::int64_t chunk) {
      const Range range = chunk_range(items, chunks, chunk);
      for (std::int64_t item = range.begin; item < range.end; ++item) body(item);
    });
  }

  void pack(const float* weights, std::int64_t in, std::int64_t out, std::uint16_t* packed) const {
    parallel_for(plane_.rows_of_kernel(), [&](std::int64_t row) { kernels_.pack({plane_, in, out, row, weights, packed}); });
  }

  /// Return the planes that the kernel reads. If kernel_z is 1, it does not read the two planes of the halo.
  [[nodiscard]] Range planes() const { return plane_.kernel_z == 3 ? Range{0, plane_.z + 2} : Range{1, plane_.z + 1}; }

  void run(const float* input, Activation on_input, std::int64_t stored, std::int64_t used, bf16::ForwardTask whole) const {
    const std::int64_t channels = bf16::converted_channels(used);
    std::uint16_t* const converted = halves_at(thread_scratch(floats_of(bf16::converted_input(plane_, channels))));
    const std::int64_t begin = planes().begin * plane_.voxels(), end = planes().end * plane_.voxels();
    const std::int64_t chunks = std::min(kChunks, end - begin);
    parallel_for(chunks, [&](std::int64_t chunk) {
      const Range range = chunk_range(end - begin, chunks, chunk);
      kernels_.convert(
          {begin + range.begin, begin + range.end, stored, channels, input, converted, on_input == Activation::relu});
    });
    std::fill_n(converted + end * channels, bf16::beyond_input(channels), std::uint16_t{0});
    whole.plane = plane_;
    whole.channels = channels;
    whole.input = converted;
    const std::int64_t blocks = plane_.z * bf16::blocks(plane_, kernels_.forward_block(whole.stored_out));
    const std::int64_t tasks = std::min(kChunks, blocks);
    parallel_for(tasks, [&](std::int64_t index) {
      const Range range = chunk_range(blocks, tasks, index);
      bf16::ForwardTask task = whole;
      task.block_begin = range.begin;
      task.block_end = range.end;
      kernels_.forward(task);
    });
  }

  void transpose(const float* input, Activation on_input, std::uint16_t* transposed) const {
    const std::int64_t voxels = bf16::channel_stride(plane_), columns = parts(voxels, kColumns);
    for_each((planes().end - planes().begin) * columns, [&](std::int64_t item) {
      const std::int64_t begin = item % columns * kColumns;
      kernels_.transpose({plane_, planes().begin + item / columns, begin, std::min(begin + kColumns, voxels), in_, input,
                          transposed, on_input == Activation::relu});
    });
  }

  /// Adds `count` rows of output channels, which are `distance` floats apart, to `out`.
  void add_in_order(const float* rows, std::int64_t distance, std::int64_t count, float* out) const {
    for (std::int64_t begin = 0; begin < shape_.out_channels; begin += kOutputs) {
      const std::int64_t channels = std::min(kOutputs, shape_.out_channels - begin);
      std::array<float, kOutputs> total{};
      for (std::int64_t row = 0; row < count; ++row) {
        const float* const part = rows + row * distance + begin;
        for (std::int64_t c = 0; c < channels; ++c) total[static_cast<std::size_t>(c)] += part[c];
      }
      for (std::int64_t c = 0; c < channels; ++c) out[begin + c] += total[static_cast<std::size_t>(c)];
    }
  }

  Conv3dShape shape_;
  const bf16::Kernels& kernels_;
  Plane plane_;
  std::int64_t in_, out_;  // numbers of stored channels
  std::int64_t segments_;
  AlignedBuffer<std::uint16_t> forward_weights_;
  AlignedBuffer<std::uint16_t> backward_weights_;  // allocated when first needed
  AlignedBuffer<float> bias_;
  AlignedBuffer<float> zero_bias_;
};

}  // namespace

float rounded_to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t even = bits + 0x7FFFU + ((bits >> 16) & 1U);
  return std::bit_cast<float>((std::isnan(value) ? bits | 0x400000U : even) & 0xFFFF0000U);
}

std::unique_ptr<Conv3dPlan> make_bf16_plan(const Conv3dShape& shape, const bf16::Kernels& kernels) {
  return std::make_unique<Bf16Plan>(shape, kernels);
}

}  // namespace floodtide::kernels
