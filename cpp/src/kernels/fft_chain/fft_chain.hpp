// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/tensor/view.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/fft_chain/tasks.hpp"

namespace floodtide::kernels {

/// 3x3x3 convolutions with as many outputs as inputs, one after another, as a flood-filling network has them.
///
/// All convolutions are products of Fourier transforms. A chain begins with begin(). Then each convolution is one call of
/// multiply() and one of finish(). finish() undoes the transform along y and x only, plane by plane, and makes the spectrum of
/// the next convolution from it, so that a convolution reads and writes the spectrum once. Activations have the layout of
/// Conv3d. Passes run on num_threads() threads. The result does not depend on their number, bit for bit.
class FftChain {
 public:
  /// Return why such a chain cannot be computed: a size that is not a multiple of 11 voxels, channels that are not a multiple
  /// of 16, or an instruction set without kernels. Empty if it can.
  [[nodiscard]] static std::string unsupported(const Vec3& size, std::int64_t channels, Isa level);

  /// Return the kernels of an instruction set; null if it has none.
  [[nodiscard]] static const fft::Kernels* kernels_of(Isa level) noexcept;

  /// @param size     of the volume in voxels (z, y, x)
  /// @param channels of all activations
  FftChain(const Vec3& size, std::int64_t channels, const fft::Kernels& kernels);

  /// Memory of a pass. Several passes at the same time need one each.
  struct Workspace {
    AlignedBuffer<float> spectrum;
    // Only for all passes:
    AlignedBuffer<float> transposed_weights;
    AlignedBuffer<float> input_spectrum;  // of a layer's input
    AlignedBuffer<float> products;        // of inputs and gradients
    AlignedBuffer<double> plane_sums;     // of gradients, [plane][channel]
    floodtide::Workspace scratch = {};    // of each thread
    /// Return the size in bytes, `scratch` not counted.
    [[nodiscard]] std::int64_t bytes() const noexcept;
  };
  [[nodiscard]] Workspace make_workspace(Passes passes) const;
  /// Return Workspace::bytes() of the workspace of a chain for this size.
  [[nodiscard]] static std::int64_t workspace_bytes(const Vec3& size, std::int64_t channels, Passes passes);

  /// Weights that are transformed once, for many passes. They need 20 times the memory.
  [[nodiscard]] AlignedBuffer<float> transformed(const float* weights) const;

  /// Makes the spectrum of `input`, an activation with a halo of zeros.
  void begin(const float* input, Workspace& workspace) const;

  /// Multiply the spectrum by weights: transformed ones; or [3, 3, 3][in][out], which are transformed on the way.
  void multiply(const AlignedBuffer<float>& transformed, Workspace& workspace) const;
  void multiply(const float* weights, Workspace& workspace) const;

  /// A convolution in a backward pass, and where its gradients are added.
  struct LayerGradients {
    const float* weights;  ///< [3, 3, 3][in][out]
    const float* input;    ///< an activation, before the ReLU if there is one
    Activation on_input;
    float* weight_grad;  ///< [3, 3, 3][in][out]
    float* bias_grad;    ///< [channels]
  };
  /// Multiplies the spectrum, that of the gradient by a convolution's output, by the weights of the transposed convolution.
  /// Adds the gradients by weights and biases. `workspace` must be for all passes.
  void backward(const LayerGradients& layer, Workspace& workspace) const;

  /// What the next convolution reads: nothing, `out`, or the rectified result. Backward passes use `out`.
  enum class Next { nothing, out, rectified };
  /// What becomes of the sums of a convolution. Arrays other than the bias are activations with a halo of zeros, and may be
  /// null.
  struct Results {
    const float* bias = nullptr;      ///< [channels], may be null
    const float* mask = nullptr;      ///< a sum becomes 0 where the mask is not positive
    const float* residual = nullptr;  ///< added after the mask; may be `out`
    float* out = nullptr;             ///< the result
    float* out_rectified = nullptr;   ///< the result after a ReLU
    Next next = Next::nothing;
  };
  void finish(const Results& results, Workspace& workspace) const;

 private:
  [[nodiscard]] std::int64_t scratch_floats() const;
  void multiply(fft::ProductsTask task, Workspace& workspace) const;
  /// Sums the voxels of a plane for gradients by biases.
  void sum(std::int64_t plane, const float* gradients, Workspace& workspace) const;

  fft::Layout layout_;
  const fft::Kernels* kernels_;
  AlignedBuffer<float> no_bias_;
};

}  // namespace floodtide::kernels
