// SPDX-License-Identifier: Apache-2.0
#pragma once

// Matrices of Winograd's minimal filtering, which the compiler computes from the interpolation points. This header has
// constants only, so that instruction-set files can include it.
namespace floodtide::kernels::winograd {

/// Matrices of F(Tile, Kernel): `Tile` outputs of a correlation with `Kernel` elements, from points = Tile + Kernel - 1
/// products.
///
/// out = output * ((weights * w) . (input * d)), with points - 1 finite interpolation points and infinity (Toom-Cook). The
/// points are chosen so that `input` and `output` are exact in binary, and rounding errors are small.
template <int Kernel, int Tile>
struct Matrices {
  static constexpr int points = Tile + Kernel - 1;
  double input[points][points]{};
  double output[Tile][points]{};
  double weights[points][Kernel]{};

  constexpr Matrices() {
    constexpr double of_4[] = {0, 1, -1};
    constexpr double of_5[] = {0, 1, -0.5, -2};
    const double* a = points == 4 ? of_4 : of_5;
    constexpr int finite = points - 1;
    // Row j of `input` has the coefficients of the product of (x - a[l]) over all l except j. The last row includes all l.
    for (int j = 0; j <= finite; ++j) {
      double polynomial[points + 1] = {1};
      double scale = 1;
      int degree = 0;
      for (int l = 0; l < finite; ++l) {
        if (l == j) continue;
        ++degree;
        for (int k = degree; k >= 0; --k) polynomial[k] = (k > 0 ? polynomial[k - 1] : 0) - a[l] * polynomial[k];
        if (j < finite) scale *= a[j] - a[l];
      }
      for (int k = 0; k < points; ++k) input[j][k] = polynomial[k];
      double power = 1;
      for (int k = 0; k < (Tile > Kernel ? Tile : Kernel); ++k) {
        if (j < finite && k < Tile) output[k][j] = power;
        if (j < finite && k < Kernel) weights[j][k] = power / scale;
        if (j < finite) power *= a[j];
      }
    }
    output[Tile - 1][finite] = 1;
    weights[finite][Kernel - 1] = 1;
  }
};

template <int Kernel, int Tile>
inline constexpr Matrices<Kernel, Tile> kMatrices{};

/// Largest number of output voxels of a tile along one axis. It is 1 for axes of kernel size 1, and 2 or 3 for other axes.
inline constexpr int kMostTile = 3;
constexpr int kernel_of(int tile) { return tile == 1 ? 1 : 3; }
constexpr int points_of(int tile) { return tile + kernel_of(tile) - 1; }

// One-dimensional transforms. at(row, column) is an element of the matrix.
template <int Tile>
struct InputTransform {
  static constexpr int rows = points_of(Tile), columns = points_of(Tile);
  static constexpr double at(int row, int column) { return kMatrices<kernel_of(Tile), Tile>.input[row][column]; }
};
template <int Tile>
struct OutputTransform {
  static constexpr int rows = Tile, columns = points_of(Tile);
  static constexpr double at(int row, int column) { return kMatrices<kernel_of(Tile), Tile>.output[row][column]; }
};
template <int Tile>
struct WeightsTransform {
  static constexpr int rows = points_of(Tile), columns = kernel_of(Tile);
  static constexpr double at(int row, int column) { return kMatrices<kernel_of(Tile), Tile>.weights[row][column]; }
};
/// Transform of gradients: from the gradient by the output of `Transform` to the gradient by its input.
template <class Transform>
struct Transposed {
  static constexpr int rows = Transform::columns, columns = Transform::rows;
  static constexpr double at(int row, int column) { return Transform::at(column, row); }
};
template <int Tile>
using OutputGradTransform = Transposed<OutputTransform<Tile>>;
template <int Tile>
using WeightsGradTransform = Transposed<WeightsTransform<Tile>>;

}  // namespace floodtide::kernels::winograd
