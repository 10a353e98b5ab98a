// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "floodtide/base/parallel.hpp"
#include "kernels/conv3d/shape.hpp"

namespace floodtide::nn {

/// Voxels of one level of a network for a batch: `examples` volumes, one after another, each with its own halo. If no layer
/// mixes z planes, all slices of a batch form one volume, so that each layer needs one pass only.
struct Grid {
  std::int64_t examples, z, y, x;

  [[nodiscard]] std::int64_t rows() const noexcept { return examples * z * y; }
  [[nodiscard]] std::int64_t voxels() const noexcept { return rows() * x; }
  [[nodiscard]] std::int64_t example_floats(std::int64_t channels) const noexcept {
    return kernels::activation_size(z, y, x, channels);
  }
  [[nodiscard]] std::int64_t floats(std::int64_t channels) const noexcept { return examples * example_floats(channels); }
  /// Return the offset of the first voxel of a row in an activation with `channels` stored channels. Rows count over all
  /// examples.
  [[nodiscard]] std::int64_t offset(std::int64_t row, std::int64_t channels) const noexcept {
    const std::int64_t plane = row / y, example = plane / z;
    const kernels::Conv3dShape shape{z, y, x, 1, 1};
    return example * example_floats(channels) + kernels::activation_offset(shape, channels, plane % z, row % y, 0);
  }
};

/// Calls body(group, chunk, rows) in parallel. The rows are split into equal groups, and each group into `chunks` chunks. The
/// chunks do not depend on the number of threads.
template <class Body>
void for_each_chunk(std::int64_t rows, std::int64_t groups, std::int64_t chunks, Body body) {
  const std::int64_t of_group = rows / groups;
  parallel_for(groups * chunks, [&](std::int64_t part) {
    const std::int64_t group = part / chunks;
    const Range range = chunk_range(of_group, chunks, part % chunks);
    body(group, part % chunks, Range{group * of_group + range.begin, group * of_group + range.end});
  });
}

/// Return the number of chunks per group. All groups together have about 64 chunks, and each chunk has at least one row.
[[nodiscard]] inline std::int64_t chunks_of(std::int64_t rows, std::int64_t groups) noexcept {
  constexpr std::int64_t all = 64;
  return std::clamp<std::int64_t>(all / groups, 1, rows / groups);
}

}  // namespace floodtide::nn
