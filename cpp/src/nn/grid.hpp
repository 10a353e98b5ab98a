// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "floodtide/base/parallel.hpp"
#include "kernels/conv3d/shape.hpp"

namespace floodtide::nn {

/// Voxels of one level of a network for a batch: `examples` volumes, one after another, each with its own halo. If no layer
/// mixes z planes (`planar`), all slices of a batch form one volume.
///
/// A *unit* is the smallest part that a layer can process alone: a plane of a planar grid, else an example. All levels of a
/// network have the same units. A *band* is a range of units that layers process one after the other, so that it stays in the
/// cache. A pointer to the first unit of a band, in an activation of the whole grid, is an activation of the band's grid.
struct Grid {
  std::int64_t examples, z, y, x;
  bool planar = false;

  [[nodiscard]] std::int64_t rows() const noexcept { return examples * z * y; }
  [[nodiscard]] std::int64_t voxels() const noexcept { return rows() * x; }
  [[nodiscard]] std::int64_t example_floats(std::int64_t channels) const noexcept {
    return kernels::activation_size(z, y, x, channels);
  }
  [[nodiscard]] std::int64_t units() const noexcept { return planar ? examples * z : examples; }
  [[nodiscard]] std::int64_t unit_rows() const noexcept { return planar ? y : z * y; }
  /// Return the distance of two units of an activation.
  [[nodiscard]] std::int64_t unit_floats(std::int64_t channels) const noexcept {
    return planar ? (y + 2) * (x + 2) * channels : example_floats(channels);
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

/// Return the grid of a band of `units` units.
[[nodiscard]] inline Grid band_grid(const Grid& grid, std::int64_t units) noexcept {
  return grid.planar ? Grid{1, units, grid.y, grid.x, true} : Grid{units, grid.z, grid.y, grid.x};
}

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
  return std::min(std::max<std::int64_t>(all / groups, 1), rows / groups);
}

/// Each part is a row of `each` numbers. Adds the rows of all other parts to the row of the first part.
inline void add_parts(std::int64_t parts, std::int64_t each, double* numbers) noexcept {
  for (std::int64_t part = 1; part < parts; ++part) {
    for (std::int64_t i = 0; i < each; ++i) numbers[i] += numbers[part * each + i];
  }
}

/// Calls body(row) in parallel for rows 0 to rows - 1.
template <class Body>
void for_each_row(std::int64_t rows, Body body) {
  for_each_chunk(rows, 1, chunks_of(rows, 1), [&](std::int64_t, std::int64_t, Range part) {
    for (std::int64_t row = part.begin; row < part.end; ++row) body(row);
  });
}

}  // namespace floodtide::nn
