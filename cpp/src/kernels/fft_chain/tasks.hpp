// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Interface of the FFT kernels: their tasks and function pointers. Plain data only, because instruction-set files include
// nothing else.
//
// Along each axis, a tile of 13 inputs gives 11 outputs of a convolution with 3 taps. 12 inputs are transformed by a discrete
// Fourier transform of 12 points. The 13th point ("infinity") is d[12] - d[0]. Its product with the last tap is what the 11th
// output of the cyclic convolution lacks. The points of a plane (y, x) are Groups of a real or complex number.
//
// The gradient by a tap is a correlation, too: tiles of 11 inputs of the layer are moved over windows of 13 gradients of its
// outputs. Inputs 11 and 12 of such a tile are zeros, and its point at infinity is input 10.
namespace floodtide::kernels::fft {

constexpr std::int64_t kTile = 11;    ///< outputs of a tile along an axis
constexpr std::int64_t kPoints = 13;  ///< points of a tile along an axis: frequencies 0 to 11, then infinity
constexpr std::int64_t kInfinity = 12;
constexpr std::int64_t kRealLines = 3;     ///< points of the transform of a real line that are real: 0, 6, infinity
constexpr std::int64_t kComplexLines = 5;  ///< its complex frequencies; the others are their conjugates
constexpr std::int64_t kRealGroups = kRealLines * kRealLines;
constexpr std::int64_t kGroups = kRealGroups + kRealLines * kComplexLines + kComplexLines * kPoints;  ///< 89

/// The frequencies 0, 6, infinity, and those that stand for a pair of conjugates, in the order of the transform.
constexpr std::int64_t kRealFrequencies[kRealLines] = {0, 6, kInfinity};
constexpr std::int64_t kComplexFrequencies[kComplexLines] = {4, 1, 10, 7, 9};

/// Size of a volume of whole tiles, and the layout of its spectrum: [group][plane z][tile (y, x)][real, imaginary][channel].
/// Real groups have no imaginary part; its place is not used.
struct Layout {
  std::int64_t tiles_z, tiles_y, tiles_x;
  std::int64_t channels;  ///< a multiple of 16

  [[nodiscard]] constexpr std::int64_t planes() const { return kTile * tiles_z; }
  [[nodiscard]] constexpr std::int64_t rows() const { return kTile * tiles_y; }
  [[nodiscard]] constexpr std::int64_t columns() const { return kTile * tiles_x; }
  [[nodiscard]] constexpr std::int64_t plane_tiles() const { return tiles_y * tiles_x; }
  [[nodiscard]] constexpr std::int64_t tiles() const { return tiles_z * plane_tiles(); }
  [[nodiscard]] constexpr std::int64_t plane_stride() const { return plane_tiles() * 2 * channels; }
  /// An odd number of cache lines: with a power of two, all groups would share few sets of a cache.
  [[nodiscard]] constexpr std::int64_t group_stride() const { return (planes() * plane_stride() / 16 | 1) * 16; }
  [[nodiscard]] constexpr std::int64_t spectrum_floats() const { return kGroups * group_stride(); }
  /// A plane with a halo of zeros: [rows + 2][columns + 2][channel].
  [[nodiscard]] constexpr std::int64_t row_stride() const { return (columns() + 2) * channels; }
  [[nodiscard]] constexpr std::int64_t plane_floats() const { return (rows() + 2) * row_stride(); }
  [[nodiscard]] constexpr std::int64_t interior() const { return row_stride() + channels; }  ///< its first voxel inside
  /// Transformed weights: [group][tap z][real, imaginary][block of outputs][in][out of the block]. The last block may be
  /// smaller. The kernels choose the size of a block.
  [[nodiscard]] constexpr std::int64_t group_weight_floats() const { return 6 * channels * channels; }
  [[nodiscard]] constexpr std::int64_t point_stride() const { return (tiles() * channels / 16 | 1) * 16; }
  /// Products of inputs and gradients: [group][tap z][real, imaginary][in][out].
  [[nodiscard]] constexpr std::int64_t group_products() const { return (group_weight_floats() / 16 | 1) * 16; }
};

/// Floats of scratch memory for plane tasks: one tile, transformed along x, of 16 channels.
constexpr std::int64_t kPlaneScratchFloats = kPoints * kPoints * 16;

/// What is transformed: windows of 13 inputs, which overlap; or tiles of 11 inputs, rectified or not.
enum class Inputs : std::uint8_t { windows, tiles, rectified_tiles };

/// Task: transform one plane to its part of the spectrum.
struct ForwardTask {
  Layout layout;
  std::int64_t plane;
  const float* input;  ///< a plane with halo
  float* spectrum;
  float* scratch;
  Inputs inputs = Inputs::windows;
};

/// Task: transform the products of one plane back, then apply bias, mask and residual. All arrays but the bias are planes with
/// halo, and may be null.
struct InverseTask {
  Layout layout;
  std::int64_t plane;
  const float* spectrum;
  const float* bias;      ///< [channels], any alignment
  const float* mask;      ///< the sum becomes 0 where the mask is not positive
  const float* residual;  ///< added after the mask; may be `out`
  float* out;             ///< the result
  float* out_rectified;   ///< the result after a ReLU
  float* scratch;
};

/// Task: multiply some groups by the weights, in place. In a backward pass, the spectrum is that of the gradient by a layer's
/// output, and is multiplied by the layer's input, too.
struct ProductsTask {
  Layout layout;
  std::int64_t group_begin, group_end;
  const float* weights;  ///< [3, 3, 3][in][out]; null: `transformed` are given
  const float* transformed;
  float* spectrum;
  float* scratch;            ///< products_scratch_floats() floats
  const float* layer_input;  ///< its spectrum, of tiles; null: there are no gradients of weights
  float* weight_products;    ///< of the layer's input and the gradients
};
constexpr std::int64_t products_scratch_floats(const Layout& layout) {
  return kPoints * 6 * layout.point_stride() + 10 * layout.channels * layout.channels;
}

/// Task: transform products back along y and x, and add them to gradients of weights, [3, 3, 3][in][out], of any alignment.
/// Row z * channels + in has the products of tap z along z and input channel `in`, for the gradients of tap 2 - z.
struct WeightGradientsTask {
  Layout layout;
  std::int64_t row_begin, row_end;
  const float* products;
  float* weight_grad;
};

struct Kernels {
  /// Transforms weights [3, 3, 3][in][out] along y and x, for the groups from group_begin to group_end.
  void (*transform_weights)(const Layout& layout, const float* weights, std::int64_t group_begin, std::int64_t group_end,
                            float* out_transformed);
  void (*forward)(const ForwardTask& task);
  void (*products)(const ProductsTask& task);
  void (*inverse)(const InverseTask& task);
  void (*weight_gradients)(const WeightGradientsTask& task);
  /// Sums the voxels of a plane with halo, for each channel.
  void (*sum_plane)(const Layout& layout, const float* plane, double* out_sums);
};

extern const Kernels kAvx2;
extern const Kernels kAvx512;

}  // namespace floodtide::kernels::fft
