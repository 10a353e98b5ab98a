// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/tensor/view.hpp"
#include "kernels/fft_chain/tasks.hpp"

namespace floodtide::kernels {

/// Forward passes of a chain of 3x3x3 convolutions with as many outputs as inputs, as a flood-filling network has them:
/// s = conv_0(input); then for each pair s = s + conv_2i(ReLU(conv_2i-1(ReLU(s)))).
///
/// All convolutions are products of Fourier transforms. Between two layers, only the transform along y and x is undone, plane
/// by plane, so that a layer reads and writes each spectrum once. Activations have the layout of Conv3d. Passes run on
/// num_threads() threads. The result does not depend on their number, bit for bit.
class FftChain {
 public:
  /// Return why such a chain cannot be computed: a size that is not a multiple of 11 voxels, channels that are not a multiple
  /// of 16, or an instruction set without kernels. Empty if it can.
  [[nodiscard]] static std::string unsupported(const Vec3& size, std::int64_t channels, Isa level);

  /// Return the kernels of an instruction set; null if it has none.
  [[nodiscard]] static const fft::Kernels* kernels_of(Isa level) noexcept;

  /// @param size     of the volume in voxels (z, y, x)
  /// @param channels of all activations
  /// @param layers   number of convolutions, odd
  FftChain(const Vec3& size, std::int64_t channels, std::int64_t layers, const fft::Kernels& kernels);

  /// Transforms the weights [3, 3, 3][channels][channels] of a layer.
  void set_weights(std::int64_t layer, const float* weights, const float* bias);

  /// Memory of a pass. Several passes at the same time need one each.
  struct Workspace {
    AlignedBuffer<float> spectrum;
  };
  [[nodiscard]] Workspace make_workspace() const { return {AlignedBuffer<float>(layout_.spectrum_floats())}; }

  /// Computes the chain. @param input, out_stream activations with a halo of zeros
  void forward(const float* input, float* out_stream, Workspace& workspace) const;

 private:
  struct Layer {
    AlignedBuffer<float> weights, bias;
  };
  [[nodiscard]] std::int64_t scratch_floats() const;
  /// Computes the products of a layer, in place.
  void multiply(const Layer& layer, float* spectrum) const;

  fft::Layout layout_;
  const fft::Kernels* kernels_;
  std::vector<Layer> layers_;
};

}  // namespace floodtide::kernels
