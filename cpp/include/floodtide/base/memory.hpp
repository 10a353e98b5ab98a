// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace floodtide {

inline constexpr std::size_t kAlignment = 64;                   ///< bytes; one cache line and one AVX-512 register
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  ///< bytes

/// Return `bytes` bytes of zero-filled memory, aligned to kAlignment. The size is rounded up to whole huge pages, and the
/// memory aligned to them, if this adds at most half of `bytes`. allocate_bytes(0) returns null. Throws Error(io) if there is
/// not enough memory. All arrays of the library are allocated and counted here (allocation_count).
[[nodiscard]] void* allocate_bytes(std::size_t bytes);
void release_bytes(void* pointer) noexcept;

/// Return the number of blocks that allocate_bytes has allocated since the process started. A test uses this number to show
/// that a training step does not allocate.
[[nodiscard]] std::int64_t allocation_count() noexcept;

/// Return the peak resident memory of this process in bytes, or 0 if the system does not report it.
[[nodiscard]] std::size_t peak_resident_bytes();
/// Return the current resident memory of this process in bytes, or 0 if the system does not report it.
[[nodiscard]] std::size_t resident_bytes();

/// Return count * element_size. Throws Error(invalid_argument) if `count` is negative or the product is too large.
[[nodiscard]] std::size_t checked_bytes(std::int64_t count, std::size_t element_size);

/// Array that owns `count` zero-initialised elements, aligned to kAlignment. Move-only.
template <class T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedBuffer() noexcept = default;
  explicit AlignedBuffer(std::int64_t count)
      : data_(static_cast<T*>(allocate_bytes(checked_bytes(count, sizeof(T))))), count_(count) {}
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~AlignedBuffer() { release_bytes(data_); }

  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] std::int64_t size() const noexcept { return count_; }
  [[nodiscard]] std::span<T> span() noexcept { return {data_, static_cast<std::size_t>(count_)}; }
  [[nodiscard]] std::span<const T> span() const noexcept { return {data_, static_cast<std::size_t>(count_)}; }
  [[nodiscard]] T& operator[](std::int64_t i) noexcept { return data_[i]; }
  [[nodiscard]] const T& operator[](std::int64_t i) const noexcept { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

/// Memory for intermediate values. Its owner passes it from one pass to the next, so that the passes of all layers share one
/// block. One thread uses it at a time.
class Workspace {
 public:
  /// Return at least `count` floats, aligned to kAlignment, with undefined content. The next call may free them. The block
  /// grows to the largest request, so that passes allocate nothing after the first ones.
  [[nodiscard]] float* floats(std::int64_t count);

 private:
  AlignedBuffer<float> block_;
};

}  // namespace floodtide
