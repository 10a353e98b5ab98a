// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/grow.hpp"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "floodtide/base/parallel.hpp"

namespace floodtide::segment {
namespace {

/// Return the smallest id above 0 of the voxels that share a face with a voxel; 0: none of them has one.
std::int32_t smallest_neighbour(View<const std::int32_t, 3> labels, const Vec3& voxel) {
  std::int32_t smallest = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (const std::int64_t step : {-1, 1}) {
      Vec3 at = voxel;
      at[axis] += step;
      if (at[axis] < 0 || at[axis] >= labels.shape()[axis]) continue;
      const std::int32_t id = labels.at(at);
      if (id > 0 && (smallest == 0 || id < smallest)) smallest = id;
    }
  }
  return smallest;
}

}  // namespace

void grow(Tensor<std::int32_t, 3>& labels, std::int64_t steps) {
  if (steps < 1) return;
  const Vec3& shape = labels.shape();
  Tensor<std::int32_t, 3> before(shape);
  for (std::int64_t step = 0; step < steps; ++step) {
    std::ranges::copy(labels.span(), before.data());
    std::atomic<bool> grown = false;
    const View<const std::int32_t, 3> known = std::as_const(before).view();
    parallel_for(shape[0], [&](std::int64_t z) {
      for (std::int64_t y = 0; y < shape[1]; ++y) {
        for (std::int64_t x = 0; x < shape[2]; ++x) {
          std::int32_t& label = labels.view()(z, y, x);
          if (label != 0) continue;
          label = smallest_neighbour(known, {z, y, x});
          if (label != 0) grown.store(true, std::memory_order_relaxed);
        }
      }
    });
    if (!grown) return;
  }
}

void grow(Result& result, std::int64_t steps) {
  if (steps < 1) return;
  grow(result.labels, steps);
  std::int64_t largest = 0;
  for (const std::int32_t label : result.labels.span()) largest = std::max<std::int64_t>(largest, label);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(largest) + 1);
  for (const std::int32_t label : result.labels.span()) {
    if (label > 0) ++counts[static_cast<std::size_t>(label)];
  }
  for (Origin& origin : result.origins) origin.voxels = origin.id <= largest ? counts[static_cast<std::size_t>(origin.id)] : 0;
}

}  // namespace floodtide::segment
