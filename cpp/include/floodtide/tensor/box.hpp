// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "floodtide/tensor/view.hpp"

namespace floodtide {

/// Axis-parallel box of voxels, in (z, y, x) order. `start` is inside the box, start + size is outside.
struct Box {
  Vec3 start{};
  Vec3 size{};

  [[nodiscard]] Vec3 end() const noexcept { return {start[0] + size[0], start[1] + size[1], start[2] + size[2]}; }
  [[nodiscard]] std::int64_t voxels() const noexcept { return volume<3>(size); }
  [[nodiscard]] bool contains(const Vec3& position) const noexcept {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (position[axis] < start[axis] || position[axis] - start[axis] >= size[axis]) return false;
    }
    return true;
  }
  [[nodiscard]] bool contains(const Box& other) const noexcept {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t room = size[axis] - other.size[axis];  // no sums with positions, which may be any
      if (other.start[axis] < start[axis] || room < 0 || other.start[axis] - start[axis] > room) return false;
    }
    return true;
  }
  bool operator==(const Box&) const = default;
};

/// Return the box of `size` voxels (odd along each axis) whose middle voxel is `centre`.
[[nodiscard]] inline Box centred_box(const Vec3& centre, const Vec3& size) noexcept {
  return {{centre[0] - size[0] / 2, centre[1] - size[1] / 2, centre[2] - size[2] / 2}, size};
}

/// Calls body(voxel) for all voxels of a box, in row-major order.
template <class Body>
void for_each_voxel(const Box& box, const Body& body) {
  for (std::int64_t z = box.start[0]; z < box.end()[0]; ++z) {
    for (std::int64_t y = box.start[1]; y < box.end()[1]; ++y) {
      for (std::int64_t x = box.start[2]; x < box.end()[2]; ++x) body(Vec3{z, y, x});
    }
  }
}

/// Copies the box `from` of `source` into `out`. The shape of `out` must be from.size, and the box must lie inside `source`
/// (neither is checked).
template <class T>
void copy_box(View<const T, 3> source, const Box& from, View<T, 3> out) {
  for (std::int64_t z = 0; z < from.size[0]; ++z) {
    for (std::int64_t y = 0; y < from.size[1]; ++y) {
      const T* row = &source(from.start[0] + z, from.start[1] + y, from.start[2]);
      std::copy(row, row + from.size[2], &out(z, y, 0));
    }
  }
}

/// Copies `source` into the box `to` of `out`. The shape of `source` must be to.size, and the box must lie inside `out`
/// (neither is checked).
template <class T>
void paste_box(View<const T, 3> source, View<T, 3> out, const Box& to) {
  for (std::int64_t z = 0; z < to.size[0]; ++z) {
    for (std::int64_t y = 0; y < to.size[1]; ++y) {
      const T* row = &source(z, y, 0);
      std::copy(row, row + to.size[2], &out(to.start[0] + z, to.start[1] + y, to.start[2]));
    }
  }
}

}  // namespace floodtide
