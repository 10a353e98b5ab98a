// SPDX-License-Identifier: Apache-2.0
#include "nn/max_pool.hpp"

#include <array>

#include "floodtide/base/isa.hpp"
#include "kernels/pointwise/dispatch.hpp"

namespace floodtide::nn {
namespace {

using kernels::pointwise::Affine;

constexpr std::size_t kMostRows = 16;  // pools are at most 4 x 4 along z and y

/// Return the rows of `base` that the pooled row `row` covers.
template <class T>
std::array<T*, kMostRows> rows_of(const MaxPool& layer, std::int64_t row, T* base) {
  std::array<T*, kMostRows> rows{};
  const std::int64_t plane = row / layer.to.y, y = row % layer.to.y;
  const std::int64_t example = plane / layer.to.z, z = plane % layer.to.z;
  std::size_t number = 0;
  for (std::int64_t dz = 0; dz < layer.pool[0]; ++dz) {
    for (std::int64_t dy = 0; dy < layer.pool[1]; ++dy) {
      const std::int64_t source_plane = example * layer.from.z + z * layer.pool[0] + dz;
      rows[number++] = base + layer.from.offset(source_plane * layer.from.y + y * layer.pool[1] + dy, layer.channels);
    }
  }
  return rows;
}

}  // namespace

void MaxPool::forward(const float* before, Affine affine, float* out) const {
  const auto& kernels = kernels::pointwise::kernels_at(active_isa());
  for_each_row({0, to.rows()}, [&](std::int64_t row) {
    const auto rows = rows_of(*this, row, before);
    kernels.max_pool(rows.data(), affine, pool[0] * pool[1], pool[2], to.x, channels, out + to.offset(row, channels));
  });
}

void MaxPool::backward(const float* before, Affine affine, const float* grad, float* input_grad) const {
  const auto& kernels = kernels::pointwise::kernels_at(active_isa());
  for_each_row({0, to.rows()}, [&](std::int64_t row) {
    const auto rows = rows_of(*this, row, before);
    const auto grads = rows_of(*this, row, input_grad);
    kernels.max_pool_gradient(rows.data(), affine, pool[0] * pool[1], pool[2], to.x, channels, grad + to.offset(row, channels),
                              grads.data());
  });
}

}  // namespace floodtide::nn
