// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <type_traits>

#include "floodtide/base/memory.hpp"

namespace floodtide {

/// A vector in (z, y, x) order: voxel positions, sizes, steps.
using Vec3 = std::array<std::int64_t, 3>;

template <std::size_t Rank>
using Shape = std::array<std::int64_t, Rank>;

template <std::size_t Rank>
[[nodiscard]] constexpr std::int64_t volume(const Shape<Rank>& shape) noexcept {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

/// Return the number of elements of a shape. Throws Error(invalid_argument) if an extent is negative or the number is too
/// large.
[[nodiscard]] std::int64_t checked_volume(std::span<const std::int64_t> shape);

/// View of a contiguous row-major array (last axis fastest) that another object owns. The owner must outlive the view.
template <class T, std::size_t Rank>
class View {
 public:
  View() noexcept = default;
  View(T* data, const Shape<Rank>& shape) noexcept : data_(data), shape_(shape) {}
  /// Converts a view of mutable elements to a view of constant elements.
  template <class U>
    requires(std::is_same_v<const U, T>)
  View(const View<U, Rank>& other) noexcept
      : data_(other.data()), shape_(other.shape()) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] const Shape<Rank>& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t shape(std::size_t axis) const noexcept { return shape_[axis]; }
  [[nodiscard]] std::int64_t size() const noexcept { return volume<Rank>(shape_); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::span<T> span() const noexcept { return {data_, static_cast<std::size_t>(size())}; }

  template <class... Index>
    requires(sizeof...(Index) == Rank)
  [[nodiscard]] T& operator()(Index... index) const noexcept {
    return at({static_cast<std::int64_t>(index)...});
  }
  [[nodiscard]] T& at(const Shape<Rank>& position) const noexcept {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < Rank; ++axis) offset = offset * shape_[axis] + position[axis];
    return data_[offset];
  }

 private:
  T* data_ = nullptr;
  Shape<Rank> shape_{};
};

/// Contiguous row-major array that owns its elements. The elements are zero at first. Move-only.
template <class T, std::size_t Rank>
class Tensor {
 public:
  Tensor() noexcept = default;
  /// Throws what checked_volume() and AlignedBuffer throw.
  explicit Tensor(const Shape<Rank>& shape) : buffer_(checked_volume(shape)), shape_(shape) {}

  [[nodiscard]] View<T, Rank> view() noexcept { return {buffer_.data(), shape_}; }
  [[nodiscard]] View<const T, Rank> view() const noexcept { return {buffer_.data(), shape_}; }
  [[nodiscard]] T* data() noexcept { return buffer_.data(); }
  [[nodiscard]] const T* data() const noexcept { return buffer_.data(); }
  [[nodiscard]] const Shape<Rank>& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t size() const noexcept { return buffer_.size(); }
  [[nodiscard]] std::span<T> span() noexcept { return buffer_.span(); }
  [[nodiscard]] std::span<const T> span() const noexcept { return buffer_.span(); }

 private:
  AlignedBuffer<T> buffer_;
  Shape<Rank> shape_{};
};

/// Writes a shape or position as "(z, y, x)" in a message.
struct Show {
  std::span<const std::int64_t> values;
};
inline std::ostream& operator<<(std::ostream& stream, const Show& show) {
  stream << '(';
  for (std::size_t i = 0; i < show.values.size(); ++i) stream << (i == 0 ? "" : ", ") << show.values[i];
  return stream << ')';
}

}  // namespace floodtide
