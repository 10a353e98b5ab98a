// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <dnnl.hpp>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "kernels/conv3d/dnnl_plugin.hpp"

// Plug-in that computes a convolution with oneDNN.
//
// oneDNN divides a sum between its threads, so that its results depend on their number. This plug-in therefore divides the
// channels into slices, whose number does not depend on the threads. oneDNN computes each slice on one thread, and
// parallel_for runs the slices. Activations keep their order of channels; only the halo is removed. The weights are reordered
// once for each set_weights().
namespace floodtide::kernels {
namespace {

using dnnl::memory;

constexpr std::int64_t kSlice = 64;  // channels of a slice
constexpr std::int64_t kChunks = 64;
constexpr std::int64_t kFloatsOfLine = kAlignment / sizeof(float);

/// Calls `body`, and converts oneDNN's exceptions to Error(internal). Only this file knows oneDNN's exceptions.
template <class Body>
auto guarded(Body body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    raise(ErrorCode::internal, "conv3d: oneDNN: ", error.what());
  }
}

/// Return oneDNN's engine. The first call limits oneDNN to the instructions of active_isa(), as FLOODTIDE_ISA asks.
dnnl::engine make_engine() {
  static const bool limited = [] {
    if (active_isa() < Isa::avx512) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    return true;
  }();
  static_cast<void>(limited);
  return {dnnl::engine::kind::cpu, 0};
}

std::int64_t floats_of(const memory::desc& desc) {
  return (static_cast<std::int64_t>(desc.get_size() / sizeof(float)) + kFloatsOfLine - 1) / kFloatsOfLine * kFloatsOfLine;
}

/// A range of channels: of the output in forward and backward-weights, of the input in backward-data.
struct Slice {
  Range channels;
  dnnl::primitive primitive;
  memory::desc result;      // activation (1, channels, z, y, x), channels last; backward-weights: gradient of the weights
  memory::desc weights;     // as the primitive wants them
  memory::desc scratchpad;  // memory of the primitive during a pass
  AlignedBuffer<float> packed;

  [[nodiscard]] std::int64_t count() const { return channels.size(); }
};

class DnnlPlan final : public Conv3dPlan {
 public:
  explicit DnnlPlan(const Conv3dShape& shape)
      : shape_(shape),
        in_(shape.in_channels),
        out_(shape.out_channels),
        voxels_(shape.z * shape.y * shape.x),
        engine_(make_engine()),
        input_(activation(in_)),
        output_(activation(out_)),
        bias_(out_) {
    const OneThread one_thread;  // oneDNN plans for the number of threads that it may use now
    plan();
    for (const std::vector<Slice>* slices : {&forward_, &backward_data_, &backward_weights_}) {
      scratch_floats_ = std::max(scratch_floats_, scratch_of(*slices));
    }
  }

  void set_weights(const float* weights, const float* bias, Passes passes, Workspace&) override {
    std::copy_n(bias, out_, bias_.data());
    for_each(forward_, [&](Slice& slice, const dnnl::stream& stream) {
      pack(weights + slice.channels.begin, {slice.count(), in_}, slice, stream);
    });
    if (passes == Passes::forward) return;
    for_each(backward_data_, [&](Slice& slice, const dnnl::stream& stream) {
      pack(weights + slice.channels.begin * out_, {out_, slice.count()}, slice, stream);
    });
  }

  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out,
               Workspace& workspace) override {
    float* const dense = workspace.floats(scratch_floats_);
    gather(input, shape_.stored_in(), {0, in_}, on_input, dense);
    const std::vector<float*> room = rooms(forward_, dense + floats_of(input_));
    for_each(forward_, [&](Slice& slice, const dnnl::stream& stream) {
      float* const result = room[index_of(forward_, slice)];
      slice.primitive.execute(stream, {{DNNL_ARG_SRC, at(input_, dense)},
                                       {DNNL_ARG_WEIGHTS, at(slice.weights, slice.packed.data())},
                                       {DNNL_ARG_BIAS, at(vector_of(slice.count()), bias_.data() + slice.channels.begin)},
                                       {DNNL_ARG_DST, at(slice.result, result)},
                                       {DNNL_ARG_SCRATCHPAD, at(slice.scratchpad, result + floats_of(slice.result))}});
      scatter(result, shape_.stored_out(), slice.channels, [=](std::int64_t at, float sum) {
        if (residual != nullptr) sum += residual[at];
        out[at] = relu_output && sum < 0.0F ? 0.0F : sum;
      });
    });
  }

  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad,
                     Workspace& workspace) override {
    float* const dense = workspace.floats(scratch_floats_);
    gather(output_grad, shape_.stored_out(), {0, out_}, Activation::none, dense);
    const std::vector<float*> room = rooms(backward_data_, dense + floats_of(output_));
    for_each(backward_data_, [&](Slice& slice, const dnnl::stream& stream) {
      float* const result = room[index_of(backward_data_, slice)];
      slice.primitive.execute(stream, {{DNNL_ARG_DIFF_DST, at(output_, dense)},
                                       {DNNL_ARG_WEIGHTS, at(slice.weights, slice.packed.data())},
                                       {DNNL_ARG_DIFF_SRC, at(slice.result, result)},
                                       {DNNL_ARG_SCRATCHPAD, at(slice.scratchpad, result + floats_of(slice.result))}});
      scatter(result, shape_.stored_in(), slice.channels, [=](std::int64_t at, float sum) {
        if (relu_mask != nullptr && !(relu_mask[at] > 0.0F)) sum = 0.0F;
        out_input_grad[at] = accumulate ? out_input_grad[at] + sum : sum;
      });
    });
  }

  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad, Workspace& workspace) override {
    float* const dense = workspace.floats(scratch_floats_);
    gather(input, shape_.stored_in(), {0, in_}, on_input, dense);
    const std::vector<float*> room = rooms(backward_weights_, dense + floats_of(input_));
    for_each(backward_weights_, [&](Slice& slice, const dnnl::stream& stream) {
      float* const result = room[index_of(backward_weights_, slice)];
      float* const scratchpad = result + floats_of(slice.result);
      float* const grads = scratchpad + floats_of(slice.scratchpad);  // of the output, then of the weights in our order
      float* const bias_grad = grads + std::max(slice.count() * voxels_, plain_floats(slice));
      gather(output_grad, shape_.stored_out(), slice.channels, Activation::none, grads);
      slice.primitive.execute(stream, {{DNNL_ARG_SRC, at(input_, dense)},
                                       {DNNL_ARG_DIFF_DST, at(activation(slice.count()), grads)},
                                       {DNNL_ARG_DIFF_WEIGHTS, at(slice.result, result)},
                                       {DNNL_ARG_DIFF_BIAS, at(vector_of(slice.count()), bias_grad)},
                                       {DNNL_ARG_SCRATCHPAD, at(slice.scratchpad, scratchpad)}});
      reorder(at(slice.result, result), at(plain_weights({slice.count(), in_}), grads), stream);
      for (std::int64_t row = 0; row < shape_.taps() * in_; ++row) {
        float* const to = out_weight_grad + row * out_ + slice.channels.begin;
        for (std::int64_t i = 0; i < slice.count(); ++i) to[i] += grads[row * slice.count() + i];
      }
      for (std::int64_t i = 0; i < slice.count(); ++i) out_bias_grad[slice.channels.begin + i] += bias_grad[i];
    });
  }

 private:
  /// Numbers of output and input channels of weights.
  struct Channels {
    std::int64_t out, in;
  };

  [[nodiscard]] memory::desc activation(std::int64_t channels) const {
    return {{1, channels, shape_.z, shape_.y, shape_.x}, memory::data_type::f32, memory::format_tag::ndhwc};
  }
  static memory::desc vector_of(std::int64_t count) { return {{count}, memory::data_type::f32, memory::format_tag::x}; }
  [[nodiscard]] memory::dims weight_dims(const Channels& channels) const {
    return {channels.out, channels.in, shape_.kernel_z, shape_.kernel_y, shape_.kernel_x};
  }
  /// Weights (kz, ky, kx, in, out) of these channels, without gaps.
  [[nodiscard]] memory::desc plain_weights(const Channels& channels) const {
    return {weight_dims(channels), memory::data_type::f32, memory::format_tag::dhwio};
  }
  /// Weights of these channels inside of weights (kz, ky, kx, in, out) of all channels.
  [[nodiscard]] memory::desc weights_inside(const Channels& channels) const {
    const std::int64_t tap = in_ * out_;
    return {weight_dims(channels),
            memory::data_type::f32,
            {1, out_, shape_.kernel_y * shape_.kernel_x * tap, shape_.kernel_x * tap, tap}};
  }
  memory at(const memory::desc& desc, const float* data) const { return {desc, engine_, const_cast<float*>(data)}; }

  static void reorder(memory from, memory to, const dnnl::stream& stream) {
    dnnl::reorder(from, to).execute(const_cast<dnnl::stream&>(stream), from, to);
  }

  void pack(const float* weights, const Channels& channels, Slice& slice, const dnnl::stream& stream) const {
    reorder(at(weights_inside(channels), weights), at(slice.weights, slice.packed.data()), stream);
  }

  /// Makes the primitives and the room for packed weights.
  void plan() {
    const auto any = memory::format_tag::any;
    const auto f32 = memory::data_type::f32;
    const memory::dims strides{1, 1, 1};
    const memory::dims padding{shape_.kernel_z / 2, shape_.kernel_y / 2, shape_.kernel_x / 2};
    const auto algorithm = dnnl::algorithm::convolution_direct;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto forward = [&](const Channels& channels) {
      return dnnl::convolution_forward::primitive_desc(
          engine_, dnnl::prop_kind::forward_training, algorithm, activation(channels.in), {weight_dims(channels), f32, any},
          vector_of(channels.out), activation(channels.out), strides, padding, padding, attributes);
    };
    for_each_slice(out_, [&](const Range& range) {
      const Channels channels{range.size(), in_};
      const auto pass = forward(channels);
      forward_.push_back({range, dnnl::convolution_forward(pass), activation(channels.out), pass.weights_desc(),
                          pass.scratchpad_desc(), AlignedBuffer<float>(floats_of(pass.weights_desc()))});
      const dnnl::convolution_backward_weights::primitive_desc gradient(
          engine_, algorithm, activation(in_), {weight_dims(channels), f32, any}, vector_of(channels.out),
          activation(channels.out), strides, padding, padding, pass, attributes);
      backward_weights_.push_back({range,
                                   dnnl::convolution_backward_weights(gradient),
                                   gradient.diff_weights_desc(),
                                   gradient.diff_weights_desc(),
                                   gradient.scratchpad_desc(),
                                   {}});
    });
    for_each_slice(in_, [&](const Range& range) {
      const Channels channels{out_, range.size()};
      const dnnl::convolution_backward_data::primitive_desc pass(engine_, algorithm, activation(channels.in),
                                                                 {weight_dims(channels), f32, any}, activation(out_), strides,
                                                                 padding, padding, forward(channels), attributes);
      backward_data_.push_back({range, dnnl::convolution_backward_data(pass), activation(channels.in), pass.weights_desc(),
                                pass.scratchpad_desc(), AlignedBuffer<float>(floats_of(pass.weights_desc()))});
    });
  }

  template <class Body>
  static void for_each_slice(std::int64_t channels, Body body) {
    for (std::int64_t begin = 0; begin < channels; begin += kSlice) body(Range{begin, std::min(begin + kSlice, channels)});
  }

  /// Calls body(slice, stream) for all slices in parallel. oneDNN runs on one thread in each call.
  template <class Body>
  void for_each(std::vector<Slice>& slices, Body body) {
    guarded([&] {
      parallel_for(std::ssize(slices), [&](std::int64_t i) {
        const OneThread one_thread;
        dnnl::stream stream(engine_);
        body(slices[static_cast<std::size_t>(i)], stream);
        stream.wait();
      });
    });
  }
  static std::size_t index_of(const std::vector<Slice>& slices, const Slice& slice) {
    return static_cast<std::size_t>(&slice - slices.data());
  }

  [[nodiscard]] std::int64_t plain_floats(const Slice& slice) const { return shape_.taps() * in_ * slice.count(); }
  /// Return the floats that a slice needs in a pass: the result, the scratchpad, and in backward-weights the gradients.
  [[nodiscard]] std::int64_t room_of(const std::vector<Slice>& slices, const Slice& slice) const {
    const std::int64_t both = floats_of(slice.result) + floats_of(slice.scratchpad);
    if (&slices != &backward_weights_) return both;
    const std::int64_t grads = std::max(slice.count() * voxels_, plain_floats(slice)) + slice.count();
    return both + (grads + kFloatsOfLine - 1) / kFloatsOfLine * kFloatsOfLine;
  }
  /// Return where the room of each slice begins.
  [[nodiscard]] std::vector<float*> rooms(const std::vector<Slice>& slices, float* begin) const {
    std::vector<float*> result;
    for (const Slice& slice : slices) {
      result.push_back(begin);
      begin += room_of(slices, slice);
    }
    return result;
  }
  [[nodiscard]] std::int64_t scratch_of(const std::vector<Slice>& slices) const {
    std::int64_t floats = std::max(floats_of(input_), floats_of(output_));
    for (const Slice& slice : slices) floats += room_of(slices, slice);
    return floats;
  }

  /// Copies these channels of the interior of an activation, and applies `activation`. NaN stays NaN.
  void gather(const float* from, std::int64_t stored, const Range& channels, Activation activation, float* to) const {
    const std::int64_t count = channels.size();
    for_each_voxel([&](std::int64_t voxel, std::int64_t z, std::int64_t y, std::int64_t x) {
      const float* source = from + activation_offset(shape_, stored, z, y, x) + channels.begin;
      float* const dense = to + voxel * count;
      if (activation == Activation::none) {
        std::copy_n(source, count, dense);
      } else {
        for (std::int64_t i = 0; i < count; ++i) dense[i] = source[i] < 0.0F ? 0.0F : source[i];
      }
    });
  }

  /// Calls store(offset in the activation, value) for every value of these channels.
  template <class Store>
  void scatter(const float* from, std::int64_t stored, const Range& channels, Store store) const {
    const std::int64_t count = channels.size();
    for_each_voxel([&](std::int64_t voxel, std::int64_t z, std::int64_t y, std::int64_t x) {
      const std::int64_t at = activation_offset(shape_, stored, z, y, x) + channels.begin;
      for (std::int64_t i = 0; i < count; ++i) store(at + i, from[voxel * count + i]);
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

  Conv3dShape shape_;
  std::int64_t in_, out_, voxels_;
  dnnl::engine engine_;
  memory::desc input_, output_;  // all channels
  AlignedBuffer<float> bias_;
  std::vector<Slice> forward_, backward_data_, backward_weights_;
  std::int64_t scratch_floats_ = 0;
};

}  // namespace
}  // namespace floodtide::kernels

extern "C" FLOODTIDE_EXPORT floodtide::kernels::Conv3dPlan* floodtide_dnnl_make_plan(
    const floodtide::kernels::Conv3dShape& shape) {
  using namespace floodtide::kernels;
  return guarded([&] { return new DnnlPlan(shape); });
}
