// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/nn/ffn.hpp"
#include "kernels/bf16_chain/bf16_chain.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/fft_chain/fft_chain.hpp"
#include "nn/head.hpp"

namespace floodtide::nn {

/// Convolutions of a network for one image size, and their weights. Several threads may run passes with one plan at the same
/// time, each with its own memory.
class FfnPlan {
 public:
  /// Memory for one example.
  ///
  /// The backward pass needs the input of the network, the outputs of the `a` convolutions after the ReLU, and the residual
  /// stream before the ReLU. These are 2 * depth activations. The next convolution applies the ReLU to the stream while it
  /// reads. Two gradient buffers are enough: one for the stream, to which each module adds in place, and one inside a module. A
  /// forward-only pass uses two activations.
  ///
  /// With bfloat16, only the stream and its gradient are floats. `rounded` has the other activations: first the outputs of the
  /// convolutions and the rectified stream after each module, then two gradients that convolutions read.
  struct Lane {
    explicit Lane(const kernels::Conv3dShape& first)
        : head(first), input(kernels::activation_size(first.z, first.y, first.x, first.stored_in())) {}

    Head head;
    AlignedBuffer<float> input;        // channels: image, logits, zeros
    AlignedBuffer<float> activations;  // of the convolutions: `a` after the ReLU, `b` with the skip added; then the gradients
                                       // stream_grad and inner_grad. In one block, because huge pages are not shared by blocks
    AlignedBuffer<std::uint16_t> rounded;
    kernels::FftChain::Workspace chain;
    AlignedBuffer<float> gradients;  // gradients of the parameters for one example
    Workspace workspace;             // of the convolutions
    bool trained = false;            // true: `activations` are those of a complete training pass
  };

  /// Memory of a pass: a lane for each example that is computed at the same time. Passes add what they need. The memory fits
  /// all plans for the same image size and options.
  using Lanes = std::vector<Lane>;

  /// Return why passes cannot compute with bfloat16. Empty if they can.
  [[nodiscard]] static std::string bf16_unsupported(const FfnOptions& options);
  /// Return why forward passes for this image size cannot use Fourier transforms. Empty if they can.
  [[nodiscard]] static std::string fft_unsupported(const Vec3& size, const FfnOptions& options);
  /// True if training passes for this image size use Fourier transforms. The answer does not depend on measurements, because
  /// the bits of a training must not depend on the load of a machine.
  [[nodiscard]] static bool trains_by_fft(const Vec3& size, const FfnOptions& options);

  /// @param forward how forward() computes; `fft` needs an empty fft_unsupported(). Empty: as training passes do
  FfnPlan(const Vec3& size, const FfnOptions& options, std::optional<Forward> forward);

  /// Prepares the weights for `passes`, unless they are. The order of the layout is: weights and biases of the convolutions,
  /// then of the head. Passes also read `parameters` themselves. No pass may run meanwhile.
  /// @param version number of these parameters
  void prepare(std::uint64_t version, const ParameterLayout& layout, std::span<const float> parameters, kernels::Passes passes);
  /// True if prepare() has nothing to do.
  [[nodiscard]] bool is_ready(std::uint64_t version, kernels::Passes passes) const noexcept {
    return version_ == version && (passes == kernels::Passes::all ? training_ready_ : forward_ready_);
  }

  void forward(Lanes& lanes, std::span<const FfnExample> batch) const;
  void loss_and_gradients(Lanes& lanes, std::span<FfnExample> batch, const ParameterLayout& layout, std::span<float> gradients,
                          double scale, const OnReady& on_ready) const;
  void loss_and_each_gradients(Lanes& lanes, std::span<FfnExample> batch, const ParameterLayout& layout,
                               std::span<float> out_gradients, double scale) const;

  /// As Ffn::relu_masks, of a lane that was `trained` by the last pass.
  [[nodiscard]] static Tensor<std::uint8_t, 5> relu_masks(const Vec3& size, const FfnOptions& options, const Lane& lane);
  [[nodiscard]] static std::size_t bytes(const Lanes& lanes) noexcept;
  /// Return what bytes() will be after training passes of this number of examples on this number of threads.
  [[nodiscard]] static std::size_t training_bytes(const FfnOptions& options, const Vec3& size, std::int64_t examples,
                                                  int threads, std::int64_t parameters);
  [[nodiscard]] std::string kernel_names() const;

 private:
  /// Calls body(lane, index of the example, alone) for all examples, then after(lane, index) in the order of the examples.
  /// Several bodies run at the same time if options_.parallel allows it; `alone` is true if only one runs.
  template <class Example, class Body, class After>
  void for_each_example(Lanes& lanes, std::span<Example> batch, Body body, After after) const;
  void reserve(Lane& lane, std::int64_t activations) const;
  /// Return an activation of the lane. Numbers below layers_ are outputs of convolutions; stream_grad and inner_grad follow.
  [[nodiscard]] float* activation(Lane& lane, std::size_t number) const;
  /// Return an activation of `rounded`. Numbers below layers_ are outputs of convolutions; two gradients follow.
  [[nodiscard]] std::uint16_t* rounded(Lane& lane, std::size_t number) const;
  void reserve_chain(Lane& lane, kernels::Passes passes) const;
  void load_input(Lane& lane, const FfnExample& example) const;
  /// Runs forward and backward pass of one example. Calls on_ready for each entry of lane.gradients when it is complete.
  void train(Lane& lane, FfnExample& example, const ParameterLayout& layout, double scale, const OnReady& on_ready) const;
  /// Computes the outputs of all convolutions. With `keep`, each output has its own memory, as training passes need it.
  /// Without, the first convolutions of all modules share one array for their outputs, and the second ones another.
  void convolve(Lane& lane, bool keep, bool by_fft) const;
  void convolve_bf16(Lane& lane, bool keep) const;
  /// Computes the gradients of the convolutions from lane.stream_grad. Calls ready(entry of the weights) when weights and
  /// biases of a convolution are complete.
  template <class Ready>
  void train_backward(Lane& lane, const ParameterLayout& layout, Ready ready) const;
  template <class Ready>
  void train_backward_bf16(Lane& lane, const ParameterLayout& layout, Ready ready) const;

  Vec3 size_;
  FfnOptions options_;
  std::size_t layers_;  // number of convolutions
  bool keeps_chain_weights_, trains_by_fft_, forward_by_fft_;
  // conv0_a, conv0_b, conv1_a, ... With bfloat16, and if all passes use Fourier transforms, conv0_a only.
  std::vector<kernels::Conv3d> convolutions_;
  std::optional<kernels::FftChain> chain_;           // all convolutions but the first one, if any pass uses it
  std::vector<AlignedBuffer<float>> chain_weights_;  // transformed, for forward()
  std::optional<kernels::Bf16Chain> bf16_;           // all convolutions but the first one, if compute is bf16
  std::vector<kernels::Bf16Chain::Weights> bf16_weights_, bf16_transposed_;
  std::vector<std::span<const float>> weights_, biases_;  // of the convolutions, in the caller's parameters
  std::uint64_t version_ = 0;                             // of the parameters that were prepared last; 0: none
  bool forward_ready_ = false, training_ready_ = false;
  Workspace preparation_;  // used while the convolutions prepare their weights
  std::vector<float> head_weights_;
  float head_bias_ = 0;
};

}  // namespace floodtide::nn
