// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "floodtide/tensor/view.hpp"

namespace floodtide {

[[nodiscard]] constexpr Vec3 operator+(const Vec3& a, const Vec3& b) noexcept {
  return {a[0] + b[0], a[1] + b[1], a[2] + b[2]};
}
[[nodiscard]] constexpr Vec3 operator-(const Vec3& a, const Vec3& b) noexcept {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
/// Return {of(0), of(1), of(2)}.
template <class Of>
[[nodiscard]] constexpr Vec3 by_axis(Of of) {
  return {of(std::size_t{0}), of(std::size_t{1}), of(std::size_t{2})};
}
/// Return the position of element number `index` of a row-major array.
[[nodiscard]] constexpr Vec3 position_of(std::int64_t index, const Vec3& shape) noexcept {
  return {index / (shape[1] * shape[2]), index / shape[2] % shape[1], index % shape[2]};
}

/// Axis-parallel box of voxels, in (z, y, x) order. `start` is inside the box, start + size is outside.
struct Box {
  Vec3 start{};
  Vec3 size{};

  [[nodiscard]] Vec3 end() const noexcept { return start + size; }
  [[nodiscard]] Vec3 middle() const noexcept { return start + Vec3{size[0] / 2, size[1] / 2, size[2] / 2}; }
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
  /// Return the box with `margin` more voxels on both sides.
  [[nodiscard]] Box grown(const Vec3& margin) const noexcept { return {start - margin, size + margin + margin}; }
  bool operator==(const Box&) const = default;
};

/// Return the voxels that two boxes share. Sizes are 0 along axes along which they share none.
[[nodiscard]] inline Box intersection(const Box& a, const Box& b) noexcept {
  Box both;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    both.start[axis] = std::max(a.start[axis], b.start[axis]);
    both.size[axis] = std::max<std::int64_t>(0, std::min(a.end()[axis], b.end()[axis]) - both.start[axis]);
  }
  return both;
}

/// Return the box of `size` voxels (odd along each axis) whose middle voxel is `centre`.
[[nodiscard]] inline Box centred_box(const Vec3& centre, const Vec3& size) noexcept {
  return {centre - Box{{}, size}.middle(), size};
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
