// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/nn/unet.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/pointwise/dispatch.hpp"
#include "kernels/up_convolution/up_convolution.hpp"
#include "nn/conv_block.hpp"
#include "nn/grid.hpp"
#include "nn/segmentation_head.hpp"
#include "nn/unet_layout.hpp"

namespace floodtide::nn {

/// Max pooling of the output of a ConvBlock. Kernel and stride are `pool`. The input has the grid `from`. The output has the
/// grid `to`, whose sizes are the sizes of `from` divided by `pool`.
struct MaxPool {
  Grid from, to;
  Vec3 pool;
  std::int64_t channels;

  /// @param before, affine see ConvBlock
  void forward(const float* before, kernels::pointwise::Affine affine, float* out) const {
    const auto& kernels = kernels::pointwise::kernels_at(active_isa());
    for_each_row(to.rows(), [&](std::int64_t row) {
      const auto rows = rows_of(row, before);
      kernels.max_pool(rows.data(), affine, pool[0] * pool[1], pool[2], to.x, channels, out + to.offset(row, channels));
    });
  }
  /// Adds each gradient to that of the largest input voxel. If several voxels are equal, the first one gets it.
  void backward(const float* before, kernels::pointwise::Affine affine, const float* grad, float* input_grad) const {
    const auto& kernels = kernels::pointwise::kernels_at(active_isa());
    for_each_row(to.rows(), [&](std::int64_t row) {
      const auto rows = rows_of(row, before);
      const auto grads = rows_of(row, input_grad);
      kernels.max_pool_gradient(rows.data(), affine, pool[0] * pool[1], pool[2], to.x, channels,
                                grad + to.offset(row, channels), grads.data());
    });
  }

 private:
  static constexpr std::size_t kMostRows = 16;  // pools are at most 4 x 4 along z and y

  /// Return the rows of `base` that the pooled row `row` covers.
  template <class T>
  [[nodiscard]] std::array<T*, kMostRows> rows_of(std::int64_t row, T* base) const {
    std::array<T*, kMostRows> rows{};
    const std::int64_t plane = row / to.y, y = row % to.y;
    const std::int64_t example = plane / to.z, z = plane % to.z;
    std::size_t number = 0;
    for (std::int64_t dz = 0; dz < pool[0]; ++dz) {
      for (std::int64_t dy = 0; dy < pool[1]; ++dy) {
        const std::int64_t source_plane = example * from.z + z * pool[0] + dz;
        rows[number++] = base + from.offset(source_plane * from.y + y * pool[1] + dy, channels);
      }
    }
    return rows;
  }
};

/// Layers and memory of a network for n images of one size.
class UNetPlan {
 public:
  /// @param groups number of groups in a training pass; 0: the plan is for forward passes only, and needs less memory
  /// @param options, layout must outlive the plan
  UNetPlan(std::int64_t n, const Vec3& size, int groups, const UNetOptions& options, const UNetLayout& layout);

  /// @param passes that follow: forward(), or all
  void set_parameters(std::span<const float> parameters, kernels::Passes passes);

  /// Runs a forward pass of images [n, z, y, x, in_channels]. Images that are smaller than size() are padded with zeros.
  void forward(View<const float, 5> images);
  /// As UNet::loss_and_gradients. The caller has checked the batch.
  LossReport loss_and_gradients(const SampleBatch& batch, const SegmentationLoss& loss, std::span<float> gradients,
                                double scale, const OnReady& on_ready, const SumOverRanks& sum_over_ranks);
  /// Return the probabilities [n, z, y, x, classes] of the last pass.
  [[nodiscard]] View<const float, 5> probabilities() const noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(floats_) * sizeof(float) + head_.bytes(); }
  /// Return what bytes() of a plan for these passes will be.
  [[nodiscard]] static std::size_t bytes_of(std::int64_t n, const Vec3& size, kernels::Passes passes,
                                            const UNetOptions& options);
  [[nodiscard]] std::string kernel_names() const;

 private:
  /// A block, and the entries of its arrays in the layout.
  struct Node {
    const BlockEntries* entries;
    ConvBlock block;
    float* before;  // output of the convolution, in Level::memory

    [[nodiscard]] std::int64_t begin(Range units) const noexcept {
      return units.begin * block.grid().unit_floats(block.channels());
    }
    [[nodiscard]] const float* band(Range units) const noexcept { return before + begin(units); }
    [[nodiscard]] float* band(Range units) noexcept { return before + begin(units); }
    /// Computes a band of the output of the block.
    void output(Range units, Channels<float> out) const { block.normalise(units, band(units), out); }
    /// Adds a band of gradients by the output of the block to its sums, while the band is in the cache: the layer before has
    /// just computed it.
    void sum_gradients(Range units, const float* grad) { block.sum_gradients(units, band(units), grad + begin(units)); }
  };
  struct Level {
    Grid grid;
    std::int64_t channels;
    std::vector<Node> encoder, decoder;  // two blocks each; the lowest level has no decoder
    /// Of the blocks. In a plan for forward passes, a block of the decoder uses that of the same block of the encoder, which
    /// nothing reads any more.
    std::vector<AlignedBuffer<float>> memory;
    /// Plan for training: the channels from the level below. The decoder reads them together with the output of the encoder. As
    /// soon as its backward pass does not need them any more, the same memory holds the gradient by the output of the encoder.
    AlignedBuffer<float> joined;
    std::vector<MaxPool> pool;               // pooling of a band to the next level; empty on the lowest level
    std::vector<kernels::UpConvolution> up;  // transposed convolution of a band of the next level; empty on the lowest level
  };
  struct Pass;  // arguments of a training pass

  [[nodiscard]] std::size_t lowest() const noexcept { return levels_.size() - 1; }
  void add_level(int level);

  // These functions return a band of the input of a convolution.
  /// The images on level 0, and else what is pooled from the level above.
  const float* load_input(std::size_t level, View<const float, 5> images, Range units);
  const float* load_output(const Node& node, Range units);
  /// Return a band of the output of the last block of a level. The level above reads it.
  [[nodiscard]] const float* output_of(std::size_t level, Range units);

  template <class Load>
  void run_node(Node& node, const Pass* pass, Load load);
  /// Runs the forward pass of all layers before the head. `pass` is null except in training.
  void run(View<const float, 5> images, const Pass* pass);
  [[nodiscard]] HeadInput head_input() const noexcept;
  void backward_head(const Pass& pass);
  /// Turns the gradient by the output of a level, grads_of(level), into those by the outputs of the encoder, in Level::joined,
  /// and of the level below, in grads_of(level + 1).
  void backward_decoder(std::size_t level, const Pass& pass);
  /// Turns the gradient by the output of the encoder of a level, in Level::joined, into that of the level above. The encoder of
  /// the lowest level has its gradient in grads_of(level).
  void backward_encoder(std::size_t level, const Pass& pass);
  /// Runs the backward pass of the second block of a pair, in place: `grad` becomes the gradient by the output of the first
  /// one.
  void backward_second(std::vector<Node>& pair, float* grad, const Pass& pass);
  /// Runs the backward pass of a block, except for the gradient by its input. Calls load(units) to load a band of the input,
  /// and then after(units), which may overwrite it.
  /// @param grad gradient by the output of the block; sum_gradients has been called for all of it
  template <class Load, class After>
  void backward_node(Node& node, const float* grad, const Pass& pass, Load load, After after);
  /// Return the memory for gradients of a level in the decoder. The next level uses other memory.
  [[nodiscard]] float* grads_of(std::size_t level) noexcept { return grads_[level % 2].data(); }
  /// Return zeros, which bytes() counts.
  [[nodiscard]] AlignedBuffer<float> reserve(std::int64_t floats);

  std::int64_t n_;
  Vec3 size_;
  int groups_;
  const UNetOptions* options_;
  const UNetLayout* layout_;
  std::int64_t floats_ = 0;  // of all buffers
  std::vector<Level> levels_;
  SegmentationHead head_;
  AlignedBuffer<float> bottom_;    // output of the lowest level
  AlignedBuffer<float> grads_[2];  // plan for training: see grads_of
  // Bands. They are as large as one group needs, because bands of several groups are not larger.
  AlignedBuffer<float> input_;        // input of a convolution; in the backward pass also the gradient by it
  AlignedBuffer<float> before_grad_;  // plan for training: gradient by the output of a convolution
  Workspace workspace_;               // of the convolutions
  AlignedBuffer<float> below_;        // output of the next level, which a transposed convolution reads
};

}  // namespace floodtide::nn
