// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "floodtide/base/named.hpp"
#include "floodtide/kernels/dispatch.hpp"
#include "floodtide/nn/network.hpp"

namespace floodtide::nn {

/// How the threads of a rank share the work. The choice does not change the results, bit for bit.
enum class Parallel {
  fovs,   ///< each thread computes whole fields of view if the batch has at least one per thread; otherwise as `voxels`
  voxels  ///< all threads share the voxels of one field of view; needs less memory
};
constexpr Names<Parallel, 2> names_of(Parallel) {
  return {"parallel", {{{"fovs", Parallel::fovs}, {"voxels", Parallel::voxels}}}};
}

/// How Ffn::forward computes the convolutions between feature maps. Without a choice, forward() computes as training passes do,
/// bit for bit: by Fourier transforms for fields of view of at least 9 tiles of 11 x 11 x 11 voxels, unless
/// Ffn::fft_unsupported gives a reason.
enum class Forward {
  layers,  ///< one after another
  fft      ///< as products of Fourier transforms, which a layer hands to the next one; see Ffn::fft_unsupported
};
constexpr Names<Forward, 2> names_of(Forward) { return {"forward", {{{"layers", Forward::layers}, {"fft", Forward::fft}}}}; }

struct FfnOptions {
  int depth = 9;           ///< number of modules, at least 1: an input module, then residual modules; two convolutions each
  Vec3 fov{33, 33, 33};    ///< field of view in voxels, odd
  Vec3 deltas{8, 8, 8};    ///< step between fields of view in voxels, from 0 to (fov - 1) / 2
  int features = 32;       ///< channels between the convolutions; at least 1
  std::uint64_t seed = 0;  ///< seed of the initial weights
  kernels::Compute compute = kernels::Compute::fp32;
  Parallel parallel = Parallel::fovs;
  std::string kernel = {};  ///< name of the kernel for all convolutions, for comparisons; empty: the dispatch chooses
};

/// Return the layout of the parameters of a network with these options: "seed_update/conv0_a/weights" [kz, ky, kx, in, out],
/// "seed_update/conv0_a/biases" [out], ... Throws Error(invalid_argument) for options outside their ranges.
[[nodiscard]] ParameterLayout parameter_layout(const FfnOptions& options);

/// Return the bytes of activations and gradients that training passes of `examples` fields of view of this size need: the same
/// number as Ffn::workspace_bytes() after such a pass on this number of threads. Allocates nothing.
[[nodiscard]] std::size_t training_bytes(const FfnOptions& options, const Vec3& size, std::int64_t examples, int threads);

/// One example of a batch. All arrays are (z, y, x) and have the same shape.
struct FfnExample {
  View<const float, 3> image;    ///< normalised intensities
  View<const float, 3> logits;   ///< object map before the pass
  View<float, 3> out_logits;     ///< object map after the pass; may be the same memory as `logits`
  View<const float, 3> labels;   ///< soft labels in [0, 1]; for training only
  View<const float, 3> weights;  ///< weight of each voxel in the loss; empty: all weights are 1
  double loss = 0;               ///< result of a training pass
};

/// Flood-filling network: reads an image and the object map of the same box (as logits), and returns updated logits.
///
/// conv0_a (3x3x3, 2 -> features), ReLU, conv0_b; then for i = 1 .. depth-1: s = s + conv_i_b(ReLU(conv_i_a(ReLU(s)))); then
/// ReLU and conv_lom (1x1x1, features -> 1), whose output is added to the logits. Zero padding, biases everywhere.
///
/// Images may have any size, which may differ from the field of view in the options. The first pass for an image size plans
/// the memory. Further passes with the same size and number of examples allocate nothing. Passes run on num_threads() threads,
/// and the result does not depend on the number of threads, bit for bit.
///
/// Several threads may use the object at the same time, as NetworkUse says. Their passes share the prepared weights, and each
/// has its own memory. Only destroying the object needs that no other thread uses it.
///
/// Source: Januszewski et al., Nature Methods 15 (2018), 605-610; google/ffn, training/models/convstack_3d.py.
class Ffn final : public Network {
 public:
  /// Makes a network with Glorot-uniform weights from options.seed and zero biases, or with zeros only (`initial`).
  /// Throws Error(invalid_argument) for options outside their ranges.
  explicit Ffn(const FfnOptions& options, Initial initial = Initial::random);
  ~Ffn() override;

  [[nodiscard]] const FfnOptions& options() const noexcept;
  [[nodiscard]] std::string_view kind() const noexcept override { return "ffn"; }
  [[nodiscard]] std::string summary() const override;
  /// Return the layout of the parameters, see parameter_layout().
  [[nodiscard]] const ParameterLayout& layout() const noexcept override;

  /// Return why forward() cannot use Fourier transforms for images of this size on this processor. Empty if it can.
  [[nodiscard]] std::string fft_unsupported(const Vec3& size) const;
  /// Compute the updated logits of each example. Throws Error(shape_mismatch) unless all shapes are equal and not empty.
  ///
  /// @param forward how to compute. `fft` keeps the transformed weights, which makes many passes with the same weights faster
  ///                and needs 2 MB for each layer of 32 features. Images for which fft_unsupported() gives a reason are
  ///                computed layer by layer. Empty: as training passes do
  void forward(std::span<const FfnExample> batch, std::optional<Forward> forward = {});

  /// Compute the updated logits, the loss of each example, and the gradient of the sum of losses.
  ///
  /// The loss is the mean over voxels of weight times sigmoid cross-entropy between the updated logits and the labels. A loss
  /// that is not finite does not throw.
  ///
  /// @param gradients in the order of layout(); scale * d(sum of losses)/d(parameters) is added to them
  /// @param on_ready called with the index of each entry of layout(), the last entry first, when its gradient is complete. If
  ///        the last example of the batch runs on all threads, each call happens during its backward pass; otherwise all
  ///        calls happen at the end.
  /// Throws Error(shape_mismatch) for unequal shapes.
  void loss_and_gradients(std::span<FfnExample> batch, std::span<float> gradients, double scale, const OnReady& on_ready = {});
  /// Compute the same, with separate gradients for each example: overwrites `out_gradients` [examples, parameters].
  void loss_and_each_gradients(std::span<FfnExample> batch, std::span<float> out_gradients, double scale);

  /// Return which ReLU inputs were positive in the last training pass: [2 * depth, z, y, x, features], values 0 and 1.
  ///
  /// The first axis is conv0_a, conv0_b (with the skip connection), conv1_a, ... Call this after loss_and_gradients with a
  /// batch of one example. A test in double precision uses these masks, because a rounding error can switch a ReLU, and this
  /// changes gradients much more than rounding. Throws Error(invalid_argument) if the last pass was not a training pass.
  [[nodiscard]] Tensor<std::uint8_t, 5> relu_masks() const;

  [[nodiscard]] std::size_t workspace_bytes() const noexcept override;
  /// Return the kernels of training passes for the last image size, or for the field of view before the first pass.
  [[nodiscard]] std::string kernel_names() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::nn
