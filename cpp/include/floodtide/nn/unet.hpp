// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "floodtide/kernels/dispatch.hpp"
#include "floodtide/nn/sample_network.hpp"

namespace floodtide::nn {

/// Options of a U-Net. For 2-D slices, use kernels and pools with size 1 along z.
struct UNetOptions {
  int in_channels = 1;  ///< channels of the images, at least 1
  int classes = 2;      ///< output channels: 2 to kMostClasses for softmax, 1 to kMostClasses for sigmoid
  int depth = 5;        ///< number of levels, at least 1
  int features = 16;    ///< channels of the first level, a multiple of 16; they double with each further level
  std::vector<Vec3> kernels = {{1, 3, 3}};  ///< convolution kernels, sizes 1 or 3: one for all levels, or one per level
  std::vector<Vec3> pools = {{1, 2, 2}};    ///< pooling factors, 1 to 4: one for all levels, or depth - 1
  Output output = Output::softmax;
  bool batch_norm = true;
  bool synchronised = false;  ///< batch norm statistics: true: of all images of all ranks; false: of each group of images
  double dropout = 0;         ///< share of the outputs of the lowest level that training drops, in [0, 1)
  std::uint64_t seed = 0;     ///< seed of the initial weights and of dropout
  kernels::Compute compute = kernels::Compute::fp32;
};

/// Return the layout of the parameters of a network with these options. Throws Error(invalid_argument) for options outside
/// their ranges.
[[nodiscard]] ParameterLayout parameter_layout(const UNetOptions& options);

/// Return the bytes of activations and gradients that passes of n images of this size need: what UNet::workspace_bytes()
/// returns after such a pass. Sizes are multiples of UNet::total_pool(). The functions allocate no activations. They throw
/// Error(invalid_argument) for options outside their ranges, and for more voxels than any machine can hold.
[[nodiscard]] std::size_t training_bytes(const UNetOptions& options, std::int64_t n, const Vec3& size);
[[nodiscard]] std::size_t forward_bytes(const UNetOptions& options, std::int64_t n, const Vec3& size);

/// U-Net with zero padding: the output has the size of the input.
///
/// Each level has two convolutions, each with batch norm and ReLU. Max pooling leads to the next level. Transposed convolutions
/// (kernel = stride = pool) lead back up; their outputs come after the encoder's output in the concatenation. The last layer
/// is a 1x1x1 convolution.
///
/// Convolutions before batch norm have no biases, because batch norm would remove them. Batch norm sums its statistics in
/// double and uses epsilon 1e-5, as PyTorch does. It normalises with biased variances and stores unbiased variances in the
/// moving statistics, which move by kStatisticsMomentum.
///
/// The first pass for an image size plans the memory. Further passes with the same size and number of images allocate nothing.
/// Passes run on num_threads() threads, and the result does not depend on the number of threads, bit for bit.
///
/// Several threads may use the object at the same time, as NetworkUse says. Each pass has its own prepared weights and memory.
/// Only destroying the object needs that no other thread uses it.
///
/// Source: Ronneberger et al., MICCAI 2015; Çiçek et al., MICCAI 2016; Ioffe and Szegedy, ICML 2015.
class UNet final : public SampleNetwork {
 public:
  /// Makes a network with normally distributed weights from options.seed, or with zeros only (`initial`).
  ///
  /// The variance of the weights is 2 / (taps * in) for convolutions before a ReLU (He et al., ICCV 2015). It is 1 / in for the
  /// transposed convolutions and the last convolution. Biases and shifts are 0, scales are 1.
  /// Throws Error(invalid_argument) for options outside their ranges.
  explicit UNet(const UNetOptions& options, Initial initial = Initial::random);
  ~UNet() override;

  [[nodiscard]] const UNetOptions& options() const noexcept;
  [[nodiscard]] std::string_view kind() const noexcept override { return "unet"; }
  [[nodiscard]] std::string summary() const override;
  [[nodiscard]] std::int64_t in_channels() const noexcept override { return options().in_channels; }
  [[nodiscard]] std::int64_t outputs() const noexcept override { return options().classes; }
  [[nodiscard]] Output output() const noexcept override { return options().output; }
  /// Return the product of all pools, (z, y, x).
  [[nodiscard]] Vec3 total_pool() const noexcept override;

  /// Return the layout of the parameters: "encoder0/conv_a/weights" [kz, ky, kx, in, out], "encoder0/norm_a/scale" [out],
  /// "encoder0/norm_a/shift" [out], ..., "decoder0/up/weights" [pz, py, px, in, out], "decoder0/up/biases" [out], ...,
  /// "head/weights", "head/biases". The decoder of a level has the number of the level.
  ///
  /// The moving statistics of batch norm come after all trained arrays: "encoder0/norm_a/mean" [out] (at first 0),
  /// "encoder0/norm_a/variance" [out] (at first 1), ... forward() normalises with them.
  [[nodiscard]] const ParameterLayout& layout() const noexcept override;

  /// Update the moving statistics by kStatisticsMomentum. The new statistics are those in `gradients` divided by `images`, the
  /// number of images that were summed. Throws Error(in_use) as NetworkUse::change().
  void move_statistics(std::span<const float> gradients, double images);

  /// Images of any size are padded with zeros at the end of each axis to a multiple of total_pool().
  void forward(View<const float, 5> images, View<float, 5> out_probabilities) override;
  LossReport loss_and_gradients(const SampleBatch& batch, const SegmentationLoss& loss, std::span<float> gradients,
                                double scale, const OnReady& on_ready = {}, const SumOverRanks& sum_over_ranks = {}) override;
  [[nodiscard]] std::int64_t sums_per_pass(const SegmentationLoss& loss) const noexcept override;
  [[nodiscard]] std::int64_t longest_sum() const noexcept override;

  [[nodiscard]] std::size_t workspace_bytes() const noexcept override;
  /// Free the memory that no pass uses now. The next pass plans its memory again.
  void free_workspace();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::nn
