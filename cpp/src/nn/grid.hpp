// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "floodtide/base/parallel.hpp"
#include "kernels/conv3d/shape.hpp"

namespace floodtide::nn {

/// The voxels of one level of a network for a batch: activations of `examples` volumes one after another, each with its halo.
/// Slices that share nothing along z are one volume with all of them as planes, so that each layer is one pass.
struct Grid {
  std::int64_t examples, z, y, x;

  [[nodiscard]] std::int64_t rows() const noexcept { return examples * z * y; }
  [[nodiscard]] std::int64_t voxels() const noexcept { return rows() * x; }
  [[nodiscard]] std::int64_t example_floats(std::int64_t channels) const noexcept {
    return kernels::activation_size(z, y, x, channels);
  }
  [[nodiscard]] std::int64_t floats(std::int64_t channels) const noexcept { return examples * example_floats(channels); }
  /// Where a row's first voxel lies in an activation with so many stored channels; rows count over all examples.
  [[nodiscard]] std::int64_t offset(std::int64_t row, std::int64_t channels) const noexcept {
    const std::int64_t plane = row / y, example = plane / z;
    const kernels::Conv3dShape shape{z, y, x, 1, 1};
    return example * example_floats(channels) + kernels::activation_offset(shape, channels, plane % z, row % y, 0);
  }
};

/// Calls body(group, chunk of it, rows) for rows cut into equal groups and these into a fixed number of chunks (CONVENTIONS
/// K6).
template <class Body>
void for_each_chunk(std::int64_t rows, std::int64_t groups, std::int64_t chunks, Body body) {
  const std::int64_t of_group = rows / groups;
  parallel_for(groups * chunks, [&](std::int64_t part) {
    const std::int64_t group = part / chunks;
    const Range range = chunk_range(of_group, chunks, part % chunks);
    body(group, part % chunks, Range{group * of_group + range.begin, group * of_group + range.end});
  });
}

/// Chunks of a group, so that the groups together have enough for any number of threads and each chunk has a row.
[[nodiscard]] inline std::int64_t chunks_of(std::int64_t rows, std::int64_t groups) noexcept {
  constexpr std::int64_t all = 64;
  return std::clamp<std::int64_t>(all / groups, 1, rows / groups);
}

}  // namespace floodtide::nn
