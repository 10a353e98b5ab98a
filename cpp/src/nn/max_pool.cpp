// SPDX-License-Identifier: Apache-2.0
#include "nn/max_pool.hpp"

#include <array>

#include "floodtide/base/isa.hpp"
#include "kernels/pointwise/dispatch.hpp"

namespace floodtide::nn {
namespace {

constexpr std::size_t kMostRows = 16;  // pools are at most 4 x 4 along z and y

/// Return the rows of `base` that the pooled row `row` covers.
template <class T>
std::array<T*, kMostRows> rows_of(const MaxPool& layer, std::int64_t row, T* base, std::int64_t stored) {
  std::array<T*, kMostRows> rows{};
  const std::int64_t plane = row / layer.to.y, y = row % layer.to.y;
  const std::int64_t example = plane / layer.to.z, z = plane % layer.to.z;
  std::size_t number = 0;
  for (std::int64_t dz = 0; dz < layer.pool[0]; ++dz) {
    for (std::int64_t dy = 0; dy < layer.pool[1]; ++dy) {
      const std::int64_t source_plane = example * layer.from.z + z * layer.pool[0] + dz;
      rows[number++] = base + layer.from.offset(source_plane * layer.from.y + y * layer.pool[1] + dy, stored);
    }
  }
  return rows;
}

template <class Body>
void for_each_row(const Grid& grid, Body body) {
  for_each_chunk(grid.rows(), 1, chunks_of(grid.rows(), 1), [&](std::int64_t, std::int64_t, Range rows) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) body(row);
  });
}

}  // namespace

void MaxPool::forward(Channels<const float> input, float* out) const {
  const auto& kernels = kernels::pointwise::kernels_at(active_isa());
  for_each_row(to, [&](std::int64_t row) {
    const auto rows = rows_of(*this, row, input.data, input.stored);
    kernels.max_pool(rows.data(), pool[0] * pool[1], input.stored, pool[2], to.x, channels, out + to.offset(row, channels));
  });
}

void MaxPool::backward(Channels<const float> input, const float* pooled, const float* grad, Channels<float> input_grad) const {
  const auto& kernels = kernels::pointwise::kernels_at(active_isa());
  for_each_row(to, [&](std::int64_t row) {
    const auto rows = rows_of(*this, row, input.data, input.stored);
    const auto grads = rows_of(*this, row, input_grad.data, input_grad.stored);
    const std::int64_t at = to.offset(row, channels);
    kernels.max_pool_gradient(rows.data(), pool[0] * pool[1], input.stored, pool[2], to.x, channels, pooled + at, grad + at,
                              grads.data());
  });
}

}  // namespace floodtide::nn
