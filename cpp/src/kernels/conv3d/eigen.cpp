// SPDX-License-Identifier: Apache-2.0
#define EIGEN_DONT_PARALLELIZE  // all threading goes through parallel_for
#include <Eigen/Core>
#include <algorithm>
#include <new>

#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "kernels/conv3d/plan.hpp"

// Convolution with any number of channels, as matrix products: one row of voxels times the weights of one kernel element at a
// time. Eigen has its own blocking buffers on the stack, or on the heap if they are large.
namespace floodtide::kernels {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;
using Rows = Eigen::Map<Matrix, 0, Stride>;
using ConstRows = Eigen::Map<const Matrix, 0, Stride>;

constexpr std::int64_t kForwardChunks = 16;
constexpr std::int64_t kChannelBlock = 128;  // input channels in a chunk of backward-weights

class EigenPlan final : public Conv3dPlan {
 public:
  explicit EigenPlan(const Conv3dShape& shape)
      : shape_(shape),
        taps_(shape.taps()),
        weights_(shape.weight_count()),
        flipped_(shape.weight_count()),
        bias_(shape.out_channels),
        zero_bias_(shape.in_channels) {}

  void set_weights(const float* weights, const float* bias, Passes passes, Workspace&) override {
    const std::int64_t in = shape_.in_channels, out = shape_.out_channels;
    std::copy_n(weights, taps_ * in * out, weights_.data());
    std::copy_n(bias, out, bias_.data());
    if (passes == Passes::forward) return;
    for (std::int64_t tap = 0; tap < taps_; ++tap) {
      const ConstRows source(weights + (taps_ - 1 - tap) * in * out, in, out, Stride(out));
      Rows(flipped_.data() + tap * in * out, out, in, Stride(in)) = source.transpose();
    }
  }

  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out,
               Workspace& workspace) override {
    correlate(
        input, shape_.stored_in(), shape_.in_channels, on_input, weights_.data(), bias_.data(), shape_.stored_out(),
        shape_.out_channels,
        [=](std::int64_t at, float sum) {
          if (residual != nullptr) sum += residual[at];
          out[at] = relu_output && sum < 0.0F ? 0.0F : sum;
        },
        workspace);
  }

  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad,
                     Workspace& workspace) override {
    correlate(
        output_grad, shape_.stored_out(), shape_.out_channels, Activation::none, flipped_.data(), zero_bias_.data(),
        shape_.stored_in(), shape_.in_channels,
        [=](std::int64_t at, float sum) {
          if (relu_mask != nullptr && !(relu_mask[at] > 0.0F)) sum = 0.0F;
          out_input_grad[at] = accumulate ? out_input_grad[at] + sum : sum;
        },
        workspace);
  }

  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad, Workspace& workspace) override {
    const std::int64_t blocks = channel_blocks(shape_.in_channels);
    float* const rectified = workspace.floats(rectified_floats());  // one row per chunk
    parallel_for(taps_ * blocks, [&](std::int64_t chunk) {
      const std::int64_t tap = chunk / blocks;
      const std::int64_t first = chunk % blocks * kChannelBlock;
      const std::int64_t channels = std::min(kChannelBlock, shape_.in_channels - first);
      float* scratch = rectified + chunk * shape_.x * kChannelBlock;
      Rows sums(out_weight_grad + (tap * shape_.in_channels + first) * shape_.out_channels, channels, shape_.out_channels,
                Stride(shape_.out_channels));
      for_each_row(0, shape_.z * shape_.y, [&](std::int64_t z, std::int64_t y) {
        const float* from = input + neighbour(tap, z, y) * shape_.stored_in() + first;
        ConstRows rows(from, shape_.x, channels, Stride(shape_.stored_in()));
        const ConstRows grads(output_grad + activation_offset(shape_, shape_.stored_out(), z, y, 0), shape_.x,
                              shape_.out_channels, Stride(shape_.stored_out()));
        if (on_input == Activation::relu) {
          rectify(rows, scratch, channels);
          new (&rows) ConstRows(scratch, shape_.x, channels, Stride(channels));
        }
        sums.noalias() += rows.transpose() * grads;
      });
    });
    for_each_row(0, shape_.z * shape_.y, [&](std::int64_t z, std::int64_t y) {
      const float* row = output_grad + activation_offset(shape_, shape_.stored_out(), z, y, 0);
      for (std::int64_t x = 0; x < shape_.x; ++x) {
        for (std::int64_t channel = 0; channel < shape_.out_channels; ++channel) {
          out_bias_grad[channel] += row[x * shape_.stored_out() + channel];
        }
      }
    });
  }

 private:
  static std::int64_t channel_blocks(std::int64_t channels) { return (channels + kChannelBlock - 1) / kChannelBlock; }

  [[nodiscard]] std::int64_t rows_floats() const {
    return kForwardChunks * (shape_.x + 2) * (shape_.in_channels + shape_.out_channels);
  }
  [[nodiscard]] std::int64_t rectified_floats() const {
    return taps_ * channel_blocks(shape_.in_channels) * shape_.x * kChannelBlock;
  }

  template <class Body>
  void for_each_row(std::int64_t begin, std::int64_t end, Body body) const {
    for (std::int64_t row = begin; row < end; ++row) body(row / shape_.y, row % shape_.y);
  }

  /// Return the index (halo included) of the voxel that kernel element `tap` reads for the output voxel (z, y, 0).
  [[nodiscard]] std::int64_t neighbour(std::int64_t tap, std::int64_t z, std::int64_t y) const {
    const std::int64_t kx = tap % shape_.kernel_x;
    const std::int64_t ky = tap / shape_.kernel_x % shape_.kernel_y;
    const std::int64_t kz = tap / (shape_.kernel_x * shape_.kernel_y);
    return activation_offset(shape_, 1, z + kz - shape_.kernel_z / 2, y + ky - shape_.kernel_y / 2, kx - shape_.kernel_x / 2);
  }

  /// Applies a ReLU. NaN stays NaN, as in the reference.
  static void rectify(const ConstRows& rows, float* out, std::int64_t stride) {
    Rows(out, rows.rows(), rows.cols(), Stride(stride)) = (rows.array() < 0.0F).select(0.0F, rows);
  }

  /// Calls store(offset, sum) for every output voxel and channel. `sum` is the bias plus the sum over all kernel elements.
  template <class Store>
  void correlate(const float* input, std::int64_t in_channels, std::int64_t real_in, Activation on_input, const float* weights,
                 const float* bias, std::int64_t out_channels, std::int64_t real_out, Store store, Workspace& workspace) const {
    const std::int64_t rows_total = shape_.z * shape_.y;
    const std::int64_t chunks = std::min(kForwardChunks, rows_total);
    const std::int64_t scratch_size = rows_floats() / kForwardChunks;
    float* const all_scratch = workspace.floats(rows_floats());  // for each chunk: the sums of one row, then one rectified row
    parallel_for(chunks, [&](std::int64_t chunk) {
      float* scratch = all_scratch + chunk * scratch_size;
      Rows sums(scratch, shape_.x, real_out, Stride(real_out));
      float* rectified = scratch + shape_.x * real_out;
      const Range range = chunk_range(rows_total, chunks, chunk);
      for_each_row(range.begin, range.end, [&](std::int64_t z, std::int64_t y) {
        sums.rowwise() = Eigen::Map<const Eigen::RowVectorXf>(bias, real_out);
        for (std::int64_t tap = 0; tap < taps_; ++tap) {
          const float* from = input + neighbour(tap, z, y) * in_channels;
          ConstRows rows(from, shape_.x, real_in, Stride(in_channels));
          if (on_input == Activation::relu) {
            rectify(rows, rectified, real_in);
            new (&rows) ConstRows(rectified, shape_.x, real_in, Stride(real_in));
          }
          sums.noalias() += rows * ConstRows(weights + tap * real_in * real_out, real_in, real_out, Stride(real_out));
        }
        const std::int64_t at = activation_offset(shape_, out_channels, z, y, 0);
        for (std::int64_t x = 0; x < shape_.x; ++x) {
          for (std::int64_t channel = 0; channel < real_out; ++channel) {
            store(at + x * out_channels + channel, sums(x, channel));
          }
        }
      });
    });
  }

  Conv3dShape shape_;
  std::int64_t taps_;
  AlignedBuffer<float> weights_;  // [tap][real_in][real_out]
  AlignedBuffer<float> flipped_;  // [tap][real_out][real_in], taps in reverse order
  AlignedBuffer<float> bias_;
  AlignedBuffer<float> zero_bias_;
};

}  // namespace

std::unique_ptr<Conv3dPlan> make_eigen_plan(const Conv3dShape& shape) { return std::make_unique<EigenPlan>(shape); }

}  // namespace floodtide::kernels
