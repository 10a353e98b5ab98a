// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "kernels/conv3d/plan.hpp"
#include "kernels/conv3d/winograd.hpp"
#include "kernels/transpose_weights.hpp"

namespace floodtide::kernels {
namespace {

using winograd::Tiling;

constexpr std::int64_t kChannelBlock = 16;   // channels are multiples of it; also the input channels in a chunk of a transform
constexpr std::int64_t kMostChannels = 256;  // limited by the copy of the input that a product makes on the stack
// Parts of the volume whose weight gradients are summed separately and then added in order. The number is fixed, so that
// results do not depend on the number of threads.
constexpr std::int64_t kWeightsChunks = 8;
// Parts of the volume that forward and backward-data compute in one go: neighbouring rows of tiles share rows of the input.
constexpr std::int64_t kForwardChunks = 128;

std::int64_t tiles_along(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }

/// Return the tile size along one axis with the smallest number of products. Size 4 is not used, because it loses accuracy.
std::int64_t tile_extent(std::int64_t extent, std::int64_t kernel) {
  if (kernel == 1) return 1;
  const auto products = [&](std::int64_t tile) { return tiles_along(extent, tile) * winograd::points(tile); };
  return products(2) <= products(3) ? 2 : 3;
}

Tiling tiling_of(const Conv3dShape& shape) {
  Tiling t{};
  t.z = shape.z;
  t.y = shape.y;
  t.x = shape.x;
  t.tile_z = tile_extent(shape.z, shape.kernel_z);
  t.tile_y = tile_extent(shape.y, shape.kernel_y);
  t.tile_x = tile_extent(shape.x, shape.kernel_x);
  t.tiles_z = tiles_along(t.z, t.tile_z);
  t.tiles_y = tiles_along(t.y, t.tile_y);
  t.tiles_x = tiles_along(t.x, t.tile_x);
  return t;
}

std::int64_t tiles(const Tiling& t) { return t.tiles_z * t.tiles_y * t.tiles_x; }

/// Convolution by Winograd's minimal filtering.
class WinogradPlan final : public Conv3dPlan {
 public:
  WinogradPlan(const Conv3dShape& shape, const winograd::Kernels& kernels)
      : shape_(shape),
        kernels_(kernels),
        tiling_(tiling_of(shape)),
        products_(winograd::points(tiling_) * shape.in_channels * shape.out_channels),
        by_points_(weights_blocks() * block_floats() < weights_chunks() * products_),
        forward_weights_(products_),
        bias_(shape.out_channels),
        zero_bias_(shape.in_channels) {}

  void set_weights(const float* weights, const float* bias, Passes passes, Workspace& workspace) override {
    const std::int64_t in = shape_.in_channels, out = shape_.out_channels;
    std::copy_n(bias, out, bias_.data());
    transform(weights, in, out, forward_weights_.data());
    if (passes == Passes::forward) return;
    if (backward_weights_.size() == 0) backward_weights_ = AlignedBuffer<float>(products_);
    float* const transposed = workspace.floats(shape_.weight_count());
    transpose_weights(weights, shape_.taps(), in, out, transposed);
    transform(transposed, out, in, backward_weights_.data());
  }

  void forward(const float* input, Activation on_input, const float* residual, bool relu_output, float* out,
               Workspace& workspace) override {
    winograd::ForwardTask task{};
    task.in_channels = shape_.in_channels;
    task.out_channels = shape_.out_channels;
    task.input = input;
    task.weights = forward_weights_.data();
    task.bias = bias_.data();
    task.residual = residual;
    task.out = out;
    task.relu_input = on_input == Activation::relu;
    task.relu_output = relu_output;
    run(task, workspace);
  }

  void backward_data(const float* output_grad, const float* relu_mask, bool accumulate, float* out_input_grad,
                     Workspace& workspace) override {
    winograd::ForwardTask task{};
    task.in_channels = shape_.out_channels;
    task.out_channels = shape_.in_channels;
    task.input = output_grad;
    task.weights = backward_weights_.data();
    task.bias = zero_bias_.data();
    task.mask = relu_mask;
    task.residual = accumulate ? out_input_grad : nullptr;
    task.out = out_input_grad;
    run(task, workspace);
  }

  void backward_weights(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                        float* out_bias_grad, Workspace& workspace) override {
    if (by_points_) return weights_by_points(input, on_input, output_grad, out_weight_grad, out_bias_grad, workspace);
    const std::int64_t in = shape_.in_channels, out = shape_.out_channels;
    const std::int64_t chunks = weights_chunks();
    const std::int64_t chunk_floats = products_ + out;
    float* const sums =
        workspace.floats(weights_floats());  // for each chunk: [point][in][out], then the gradient of the biases
    float* const scratch = sums + chunks * chunk_floats;
    const std::int64_t scratch_floats = winograd::weights_scratch_floats(tiling_, kernels_, in, out);
    parallel_for(chunks, [&](std::int64_t chunk) {
      const Range range = chunk_range(tiles(tiling_), chunks, chunk);
      float* const products = sums + chunk * chunk_floats;
      kernels_.weights({tiling_, in, out, range.begin, range.end, input, output_grad, products, products + products_,
                        on_input == Activation::relu, scratch + worker_index() * scratch_floats});
    });
    transform_products(sums, chunks, chunk_floats, out_weight_grad);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const float* const bias_grad = sums + chunk * chunk_floats + products_;
      for (std::int64_t channel = 0; channel < out; ++channel) out_bias_grad[channel] += bias_grad[channel];
    }
  }

 private:
  /// Return the number of blocks of tiles that backward-weights transforms.
  [[nodiscard]] std::int64_t weights_blocks() const { return tiles_along(tiles(tiling_), kernels_.weights_tiles); }
  [[nodiscard]] std::int64_t weights_chunks() const { return std::min(kWeightsChunks, weights_blocks()); }
  /// Return the floats of a block of transformed tiles, and of its gradient of the biases.
  [[nodiscard]] std::int64_t block_floats() const {
    return winograd::weights_scratch_floats(tiling_, kernels_, shape_.in_channels, shape_.out_channels) + shape_.out_channels;
  }

  /// Backward-weights of a layer with many channels and few tiles: transforms all tiles, and then multiplies point by point.
  /// Each product is summed in one place. Parts of the volume would each need such sums, which are many.
  void weights_by_points(const float* input, Activation on_input, const float* output_grad, float* out_weight_grad,
                         float* out_bias_grad, Workspace& workspace) const {
    const std::int64_t in = shape_.in_channels, out = shape_.out_channels, blocks = weights_blocks();
    const std::int64_t each = block_floats();
    float* const products = workspace.floats(weights_floats());
    float* const transformed = products + products_;
    const auto tiles_of = [&](std::int64_t block) { return chunk_range(tiles(tiling_), blocks, block); };
    parallel_for(blocks, [&](std::int64_t block) {
      float* const scratch = transformed + block * each;
      const Range range = tiles_of(block);
      kernels_.transform_tiles({tiling_, in, out, range.begin, range.end, input, output_grad, nullptr, scratch + each - out,
                                on_input == Activation::relu, scratch});
    });
    parallel_for(winograd::points(tiling_), [&](std::int64_t point) {
      for (std::int64_t block = 0; block < blocks; ++block) {
        const Range range = tiles_of(block);
        kernels_.multiply_point({tiling_, in, out, range.size(), point, transformed + block * each, block == 0, products});
      }
    });
    transform_products(products, 1, products_, out_weight_grad);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float* const bias_grad = transformed + (block + 1) * each - out;
      for (std::int64_t channel = 0; channel < out; ++channel) out_bias_grad[channel] += bias_grad[channel];
    }
  }

  /// Transforms the sum of `parts` arrays of products, and adds it to the gradients of the weights.
  void transform_products(float* products, std::int64_t parts, std::int64_t part_floats, float* out_weight_grad) const {
    parallel_for(shape_.in_channels / kChannelBlock, [&](std::int64_t block) {
      const std::int64_t begin = block * kChannelBlock;
      kernels_.transform_products(tiling_, products, parts, part_floats, shape_.in_channels, shape_.out_channels, begin,
                                  begin + kChannelBlock, out_weight_grad);
    });
  }

  [[nodiscard]] std::int64_t forward_floats() const {
    return winograd::forward_scratch_floats(tiling_, kernels_, shape_.in_channels, shape_.out_channels);
  }
  [[nodiscard]] std::int64_t weights_floats() const {
    if (by_points_) return products_ + weights_blocks() * block_floats();
    return weights_chunks() * (products_ + shape_.out_channels) +
           num_threads() * winograd::weights_scratch_floats(tiling_, kernels_, shape_.in_channels, shape_.out_channels);
  }

  void transform(const float* weights, std::int64_t in, std::int64_t out, float* transformed) const {
    parallel_for(in / kChannelBlock, [&](std::int64_t block) {
      const std::int64_t begin = block * kChannelBlock;
      kernels_.transform_weights(tiling_, weights, in, out, begin, begin + kChannelBlock, transformed);
    });
  }

  void run(const winograd::ForwardTask& whole, Workspace& workspace) const {
    float* const scratch = workspace.floats(num_threads() * forward_floats());
    const std::int64_t blocks = tiles_along(tiles(tiling_), kernels_.forward_tiles);
    const std::int64_t chunks = std::min(blocks, kForwardChunks);
    parallel_for(chunks, [&](std::int64_t chunk) {
      const Range range = chunk_range(blocks, chunks, chunk);
      winograd::ForwardTask task = whole;
      task.tiling = tiling_;
      task.tile_begin = range.begin * kernels_.forward_tiles;
      task.tile_end = std::min(range.end * kernels_.forward_tiles, tiles(tiling_));
      task.scratch = scratch + worker_index() * forward_floats();
      kernels_.forward(task);
    });
  }

  Conv3dShape shape_;
  const winograd::Kernels& kernels_;
  Tiling tiling_;
  std::int64_t products_;  // floats of transformed weights
  bool by_points_;         // backward-weights: see weights_by_points
  AlignedBuffer<float> forward_weights_;
  AlignedBuffer<float> backward_weights_;  // allocated when first needed
  AlignedBuffer<float> bias_;
  AlignedBuffer<float> zero_bias_;
};

}  // namespace

std::string winograd_unsupported(const Conv3dShape& shape) {
  if (shape.in_channels % kChannelBlock != 0 || shape.out_channels % kChannelBlock != 0) {
    return str_cat("channels are not multiples of ", kChannelBlock);
  }
  if (std::max(shape.in_channels, shape.out_channels) > kMostChannels) return str_cat("more than ", kMostChannels, " channels");
  if ((shape.kernel_z == 3) + (shape.kernel_y == 3) + (shape.kernel_x == 3) < 2) return "fewer than two kernel extents are 3";
  return "";
}

std::string winograd_avoided(const Conv3dShape& shape) {
  // Cost in multiply-adds, estimated from times on a Xeon with AVX-512. The transforms of a tile cost about 16 per point and
  // channel. The transforms of the weights cost about 25 per point and weight.
  const Tiling t = tiling_of(shape);
  const auto in = static_cast<double>(shape.in_channels), out = static_cast<double>(shape.out_channels);
  const auto points = static_cast<double>(winograd::points(t));
  const double here = points * (static_cast<double>(tiles(t)) * (in * out + 16 * (in + out)) + 25 * in * out);
  const double direct = static_cast<double>(shape.z * shape.y * shape.x * shape.taps()) * in * out;
  return here > direct ? "its transforms would cost more than it saves" : "";
}

std::unique_ptr<Conv3dPlan> make_winograd_plan(const Conv3dShape& shape, const winograd::Kernels& kernels) {
  return std::make_unique<WinogradPlan>(shape, kernels);
}

}  // namespace floodtide::kernels
