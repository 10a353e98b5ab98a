// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/nn/unet.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/up_convolution/up_convolution.hpp"
#include "nn/conv_block.hpp"
#include "nn/max_pool.hpp"
#include "nn/segmentation_head.hpp"
#include "nn/unet_layout.hpp"

namespace floodtide::nn {

/// Layers and memory of a network for n images of one size.
class UNetPlan {
 public:
  /// @param groups number of groups in a training pass; 0: the plan is for forward passes only, and needs less memory
  UNetPlan(std::int64_t n, const Vec3& size, int groups, const UNetOptions& options, const UNetLayout& layout);

  [[nodiscard]] std::int64_t images() const noexcept { return n_; }
  [[nodiscard]] const Vec3& size() const noexcept { return size_; }
  [[nodiscard]] int groups() const noexcept { return groups_; }

  void set_parameters(std::span<const float> parameters);

  /// Runs a forward pass of images [n, z, y, x, in_channels]. Images that are smaller than size() are padded with zeros.
  void forward(View<const float, 5> images);
  /// As UNet::loss_and_gradients. The caller has checked the batch.
  LossReport loss_and_gradients(const UNetBatch& batch, const SegmentationLoss& loss, std::span<float> gradients, double scale,
                                const OnReady& on_ready, const SumOverRanks& sum_over_ranks);
  /// Return the probabilities [n, z, y, x, classes] of the last pass.
  [[nodiscard]] View<const float, 5> probabilities() const noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Return what bytes() of a plan for these passes will be.
  [[nodiscard]] static std::size_t bytes_of(std::int64_t n, const Vec3& size, kernels::Passes passes,
                                            const UNetOptions& options);
  [[nodiscard]] std::string kernel_names() const;

 private:
  /// A block, and the entries of its arrays in the layout.
  struct Node {
    const BlockEntries* entries;
    ConvBlock block;
    AlignedBuffer<float> before;  // output of the convolution, for the backward pass
  };
  struct Level {
    Grid grid;
    std::int64_t channels;
    std::vector<Node> encoder, decoder;  // two blocks each; the lowest level has no decoder
    AlignedBuffer<float> pooled;         // input of the encoder, except on level 0
    AlignedBuffer<float> encoder_inner;
    AlignedBuffer<float> joined;  // output of the encoder, then (except on the lowest level) the channels from the level below
    /// Outputs of the first and second block of the decoder, one after the other. Later, the gradient by `joined` uses the same
    /// memory, because the outputs are not needed any more then.
    AlignedBuffer<float> decoded;
    std::vector<MaxPool> pool;               // pooling to the next level; empty on the lowest level
    std::vector<kernels::UpConvolution> up;  // transposed convolution from the next level; empty on the lowest level

    [[nodiscard]] float* decoder_inner() noexcept { return decoded.data(); }
    [[nodiscard]] float* decoder_out() noexcept { return decoded.data() + grid.floats(channels); }
    [[nodiscard]] float* joined_grad() noexcept { return decoded.data(); }
  };
  struct Pass;  // arguments of a training pass

  [[nodiscard]] std::size_t lowest() const noexcept { return levels_.size() - 1; }
  [[nodiscard]] std::int64_t joined_stored(std::size_t level) const noexcept;
  /// Return the output of the last block of a level. The level above reads it; the head reads that of level 0.
  [[nodiscard]] float* output_of(std::size_t level) noexcept;
  [[nodiscard]] float* input_of(std::size_t level) noexcept;
  void add_level(int level, const UNetOptions& options, const UNetLayout& layout);
  void load(View<const float, 5> images);
  void run_node(Node& node, const float* input, Channels<float> out, const Pass* pass);
  /// Runs the forward pass of all layers before the head. `pass` is null except in training.
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
  AlignedBuffer<float> input_;
  std::vector<Level> levels_;
  std::vector<SegmentationHead> head_;  // exactly one
  AlignedBuffer<float> scratch_;        // forward-only plan: output of each convolution in turn
  AlignedBuffer<float> grads_[2];       // plan for training: gradients of the activations, used alternately
};

}  // namespace floodtide::nn
