// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "floodtide/base/isa.hpp"
#include "floodtide/tensor/view.hpp"
#include "kernels/pointwise/dispatch.hpp"
#include "nn/grid.hpp"

namespace floodtide::nn {

/// Max pooling of the output of a ConvBlock. Kernel and stride are `pool`. The input has the grid `from`. The output has the
/// grid `to`, whose sizes are the sizes of `from` divided by `pool`.
struct MaxPool {
  Grid from, to;
  Vec3 pool;
  std::int64_t channels;

  /// @param before, affine see ConvBlock
  void forward(const float* before, kernels::pointwise::Affine affine, float* out) const {
    const auto& kernels = kernels::pointwise::kernels_at(active_isa());
    for_each_row({0, to.rows()}, [&](std::int64_t row) {
      const auto rows = rows_of(row, before);
      kernels.max_pool(rows.data(), affine, pool[0] * pool[1], pool[2], to.x, channels, out + to.offset(row, channels));
    });
  }
  /// Adds each gradient to that of the largest input voxel. If several voxels are equal, the first one gets it.
  void backward(const float* before, kernels::pointwise::Affine affine, const float* grad, float* input_grad) const {
    const auto& kernels = kernels::pointwise::kernels_at(active_isa());
    for_each_row({0, to.rows()}, [&](std::int64_t row) {
      const auto rows = rows_of(row, before);
      const auto grads = rows_of(row, input_grad);
      kernels.max_pool_gradient(rows.data(), affine, pool[0] * pool[1], pool[2], to.x, channels,
                                grad + to.offset(row, channels), grads.data());
    });
  }

 private:
  static constexpr std::size_t kMostRows = 16;  // pools are at most 4 x 4 along z and y

  /// Return the rows of `base` that the pooled row `row` covers.
  template <class T>
  [[nodiscard]] std::array<T*, kMostRows> rows_of(std::int64_t row, T* base) const {
    std::array<T*, kMostRows> rows{};
    const std::int64_t plane = row / to.y, y = row % to.y;
    const std::int64_t example = plane / to.z, z = plane % to.z;
    std::size_t number = 0;
    for (std::int64_t dz = 0; dz < pool[0]; ++dz) {
      for (std::int64_t dy = 0; dy < pool[1]; ++dy) {
        const std::int64_t source_plane = example * from.z + z * pool[0] + dz;
        rows[number++] = base + from.offset(source_plane * from.y + y * pool[1] + dy, channels);
      }
    }
    return rows;
  }
};

}  // namespace floodtide::nn
