// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/tensor/view.hpp"
#include "kernels/bf16_chain/tasks.hpp"

namespace floodtide::kernels {

/// 3x3x3 convolutions with as many outputs as inputs, one after another, as a flood-filling network has them, with operands in
/// bfloat16 and sums in float.
///
/// Activations between convolutions stay in bfloat16, in the layout of Conv3d. Whoever makes an activation rounds it once, and
/// the forward pass and both gradients read it. Passes run on num_threads() threads. The result does not depend on their
/// number, bit for bit.
class Bf16Chain {
 public:
  /// Return why such a chain cannot be computed: channels that are not a multiple of 32, or a processor without AMX. Empty if
  /// it can.
  [[nodiscard]] static std::string unsupported(std::int64_t channels, Isa level);
  /// Return the kernels of an instruction set; null if it has none.
  [[nodiscard]] static const bf16::Kernels* kernels_of(Isa level) noexcept;

  /// @param size     of the volume in voxels (z, y, x)
  /// @param channels of all activations
  Bf16Chain(const Vec3& size, std::int64_t channels, const bf16::Kernels& kernels);

  /// Return the bfloat16 numbers of an activation.
  [[nodiscard]] static std::int64_t activation_size(const Vec3& size, std::int64_t channels);

  using Weights = AlignedBuffer<std::uint16_t>;
  /// Packs weights [3, 3, 3][in][out], for convolve().
  void pack(const float* weights, Weights& out_packed) const;
  /// Packs the weights of the transposed convolution, given as [3, 3, 3][in][out] of the convolution itself.
  void pack_transposed(const float* weights, Weights& out_packed, Workspace& workspace) const;

  /// Rounds an activation of floats, halo included.
  void round(const float* input, std::uint16_t* out) const;

  /// What becomes of the sums of a convolution. Arrays other than the bias are activations, and may be null.
  struct Results {
    const float* bias = nullptr;           ///< [channels], may be null
    const std::uint16_t* mask = nullptr;   ///< a sum becomes 0 where the mask is not positive
    const float* residual = nullptr;       ///< added after the mask; may be `out`, which must be given then
    float* out = nullptr;                  ///< the result
    std::uint16_t* out_rounded = nullptr;  ///< the result in bfloat16, after a ReLU if `rectify`
    bool rectify = false;
  };
  void convolve(const std::uint16_t* input, const Weights& packed, const Results& results) const;

  /// Computes the gradients of weights [3, 3, 3][in][out] and bias [out], and adds them to the outputs.
  void backward_weights(const std::uint16_t* input, const std::uint16_t* output_grad, float* out_weight_grad,
                        float* out_bias_grad, Workspace& workspace) const;

 private:
  bf16::Layout layout_;
  const bf16::Kernels* kernels_;
  AlignedBuffer<float> no_bias_;
};

}  // namespace floodtide::kernels
