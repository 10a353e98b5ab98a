// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/nn/unet.hpp"
#include "kernels/up_convolution/up_convolution.hpp"
#include "nn/conv_block.hpp"
#include "nn/max_pool.hpp"
#include "nn/segmentation_head.hpp"
#include "nn/unet_layout.hpp"

namespace floodtide::nn {

/// Layers and memory of a network for n images of one size.
class UNetPlan {
 public:
  /// @param groups of a training pass; 0: the plan serves forward passes only, with less memory
  UNetPlan(std::int64_t n, const Vec3& size, int groups, const UNetOptions& options, const UNetLayout& layout);

  [[nodiscard]] std::int64_t images() const noexcept { return n_; }
  [[nodiscard]] const Vec3& size() const noexcept { return size_; }
  [[nodiscard]] int groups() const noexcept { return groups_; }

  void set_parameters(std::span<const float> parameters);

  /// Images [n, z, y, x, in_channels] whose extents are at most the plan's: zeros follow.
  void forward(View<const float, 5> images);
  /// As UNet's, of a checked batch.
  LossReport loss_and_gradients(const UNetBatch& batch, const SegmentationLoss& loss, std::span<float> gradients, double scale,
                                const OnReady& on_ready, const SumOverRanks& sum_over_ranks);
  /// [n, z, y, x, classes] of the last pass.
  [[nodiscard]] View<const float, 5> probabilities() const noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] std::string kernel_names() const;

 private:
  /// A block with its place in the network's buffers.
  struct Node {
    const BlockEntries* entries;
    ConvBlock block;
    AlignedBuffer<float> before;  // the convolution's output, for the backward pass
  };
  struct Level {
    Grid grid;
    std::int64_t channels;
    std::vector<Node> encoder, decoder;  // two each; the lowest level has no decoder
    AlignedBuffer<float> pooled;         // input of the encoder, but for level 0
    AlignedBuffer<float> encoder_inner;
    AlignedBuffer<float> joined;  // encoder's output, then (but for the lowest level) the upper half from below
    /// Outputs of the decoder's first and second block, one after the other. Nobody needs them any more when the gradient by
    /// `joined` is made, which takes their place.
    AlignedBuffer<float> decoded;
    std::vector<MaxPool> pool;               // to the next level, if there is one
    std::vector<kernels::UpConvolution> up;  // from it

    [[nodiscard]] float* decoder_inner() noexcept { return decoded.data(); }
    [[nodiscard]] float* decoder_out() noexcept { return decoded.data() + grid.floats(channels); }
    [[nodiscard]] float* joined_grad() noexcept { return decoded.data(); }
  };
  struct Pass;  // arguments of one training pass

  [[nodiscard]] std::size_t lowest() const noexcept { return levels_.size() - 1; }
  [[nodiscard]] std::int64_t joined_stored(std::size_t level) const noexcept;
  /// The output of a level's last block, which the level above or the head reads.
  [[nodiscard]] float* output_of(std::size_t level) noexcept;
  [[nodiscard]] float* input_of(std::size_t level) noexcept;
  void add_level(int level, const UNetOptions& options, const UNetLayout& layout);
  void load(View<const float, 5> images);
  void run_node(Node& node, const float* input, Channels<float> out, const Pass* pass);
  /// All layers up to the head; null for a forward pass.
  void run(const Pass* pass);
  void backward(const Pass& pass);
  void backward_node(Node& node, const float* input, Channels<const float> grad, float* scratch, float* out_input_grad,
                     const Pass& pass);
  static void ready(const Pass& pass, std::size_t entry);

  std::int64_t n_;
  Vec3 size_;
  int groups_;
  const UNetLayout* layout_;
  bool batch_norm_;
  double dropout_;
  std::uint64_t seed_;
  bool planar_;
  AlignedBuffer<float> input_;
  std::vector<Level> levels_;
  std::vector<SegmentationHead> head_;  // one
  AlignedBuffer<float> scratch_;        // forward only: all convolutions' outputs
  AlignedBuffer<float> grads_[2];       // training: gradients of any level's activations, in turn
};

}  // namespace floodtide::nn
