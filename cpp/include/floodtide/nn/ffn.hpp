// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "floodtide/base/named.hpp"
#include "floodtide/kernels/dispatch.hpp"
#include "floodtide/nn/initial.hpp"
#include "floodtide/nn/ready.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::nn {

/// What the threads of a rank share. Results are the same, bit for bit.
enum class Parallel {
  fovs,   ///< whole fields of view, where a batch has at least as many as there are threads: no thread waits within one
  voxels  ///< the voxels of each field of view: less memory
};
constexpr Names<Parallel, 2> names_of(Parallel) {
  return {"parallel", {{{"fovs", Parallel::fovs}, {"voxels", Parallel::voxels}}}};
}

struct FfnOptions {
  int depth = 9;           ///< input module and depth - 1 residual modules of two convolutions each; at least 1
  Vec3 fov{33, 33, 33};    ///< field of view in voxels, odd
  Vec3 deltas{8, 8, 8};    ///< step between fields of view in voxels, from 0 to (fov - 1) / 2
  int features = 32;       ///< channels between the convolutions; at least 1
  std::uint64_t seed = 0;  ///< of the initial weights
  kernels::Compute compute = kernels::Compute::fp32;
  Parallel parallel = Parallel::fovs;
  std::string kernel = {};  ///< of all convolutions, by name, for comparisons; empty for the usual choice
};

/// Where the parameters of a network of these options lie: "seed_update/conv0_a/weights" [kz, ky, kx, in, out],
/// "seed_update/conv0_a/biases" [out], ... Throws Error(invalid_argument) for options outside their ranges.
[[nodiscard]] ParameterLayout parameter_layout(const FfnOptions& options);

/// One example of a batch. Arrays are [z, y, x], all of the same shape.
struct FfnExample {
  View<const float, 3> image;    ///< normalised intensities
  View<const float, 3> logits;   ///< object map before
  View<float, 3> out_logits;     ///< object map after; may be `logits`
  View<const float, 3> labels;   ///< soft labels in [0, 1]; for training
  View<const float, 3> weights;  ///< of the voxels' losses; empty for ones
  double loss = 0;               ///< set by training
};

/// A flood-filling network: reads an image and the object map of the same box (as logits), returns updated logits.
///
/// conv0_a (3x3x3, 2 -> features), ReLU, conv0_b; then for i = 1 .. depth-1: s = s + conv_i_b(ReLU(conv_i_a(ReLU(s)))); then
/// ReLU and conv_lom (1x1x1, features -> 1), whose output is added to the logits. Zero padding, biases everywhere.
///
/// Batches of any size (also other than the FOV). The first pass of a size plans its memory; further passes of that size
/// and number of examples allocate nothing. Passes run on num_threads() threads with bitwise the same result on any number.
/// Not to be used by two threads at once.
///
/// Source: Januszewski et al., Nature Methods 15 (2018), 605-610; google/ffn, training/models/convstack_3d.py.
class Ffn {
 public:
  /// Glorot-uniform weights from options.seed and zero biases. Throws Error(invalid_argument) for options outside their ranges.
  explicit Ffn(const FfnOptions& options, Initial initial = Initial::random);
  Ffn(Ffn&&) noexcept;
  Ffn& operator=(Ffn&&) noexcept;
  ~Ffn();

  [[nodiscard]] const FfnOptions& options() const noexcept;
  /// As parameter_layout says.
  [[nodiscard]] const ParameterLayout& layout() const noexcept;
  /// All parameters in the order of layout(). After writing through the span call parameters_changed().
  [[nodiscard]] std::span<float> parameters() noexcept;
  [[nodiscard]] std::span<const float> parameters() const noexcept;
  void parameters_changed() noexcept;

  /// Updates the logits of each example. Throws Error(shape_mismatch) unless all shapes are equal with extents of at least 1.
  void forward(std::span<const FfnExample> batch);

  /// For each example the mean over voxels of weight times sigmoid cross-entropy between the updated logits and the labels.
  ///
  /// @param gradients scale * d(sum of losses)/d(parameters) is added, in the order of layout()
  /// @param on_ready called with each entry of layout() as soon as its gradient is final, so that it can be sent while the
  ///        rest is computed: the last layer's first, where the last example has the threads to itself
  /// Throws Error(shape_mismatch) for unequal sizes. A loss that is not finite is returned as it is.
  void loss_and_gradients(std::span<FfnExample> batch, std::span<float> gradients, double scale, const OnReady& on_ready = {});
  /// The same, but each example's gradients apart: replaces `out_gradients`, [examples, parameters] one after another.
  void loss_and_each_gradients(std::span<FfnExample> batch, std::span<float> out_gradients, double scale);

  /// Which ReLU inputs were positive in the last loss_and_gradients of one example: [2 * depth, z, y, x, features] of 0 and 1,
  /// the outputs of conv0_a, conv0_b (with skip), conv1_a, ... A reference in double needs them, because a rounding error may
  /// flip a ReLU, which changes gradients by far more than rounding. Throws Error(invalid_argument) if there was none.
  [[nodiscard]] Tensor<std::uint8_t, 5> relu_masks() const;

  /// Bytes of activations and gradients planned so far (without the convolutions' packed weights).
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// Kernels of the convolutions of the last size used, or of the FOV.
  [[nodiscard]] std::string kernel_names() const;
  /// Floating-point operations of one training step as direct convolution: three passes, less the first backward-data.
  [[nodiscard]] double step_flops(const Vec3& size) const noexcept;
  /// The same for a forward pass.
  [[nodiscard]] double forward_flops(const Vec3& size) const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace floodtide::nn
