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

/// `bytes` of memory aligned to kAlignment, or rounded up to huge pages where that adds at most a half. Throws Error(io) if
/// there is none left. allocate_bytes(0) is null. Every allocation of the library's arrays goes through here and is counted.
[[nodiscard]] void* allocate_bytes(std::size_t bytes);
void release_bytes(void* pointer) noexcept;

/// Memory of the calling thread for what a pass needs only while it runs: at least `count` floats, aligned, of undefined
/// content. A later call may return the same memory. It grows on demand (asking in a constructor saves the pass from
/// allocating) and lives as long as the thread.
[[nodiscard]] float* thread_scratch(std::int64_t count);

/// Number of calls of allocate_bytes since the start of the process: a test proves with it that a step allocates nothing.
[[nodiscard]] std::int64_t allocation_count() noexcept;

/// Peak resident memory of this process in bytes, 0 where the system does not tell.
[[nodiscard]] std::size_t peak_resident_bytes();
/// Resident memory of this process now, in bytes, 0 where the system does not tell.
[[nodiscard]] std::size_t resident_bytes();

/// Checks that count * element_size does not overflow. Throws Error(invalid_argument).
[[nodiscard]] std::size_t checked_bytes(std::int64_t count, std::size_t element_size);

/// Owns `count` elements, zero-initialised, aligned to kAlignment. Move-only.
template <class T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedBuffer() noexcept = default;
  explicit AlignedBuffer(std::int64_t count);
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

template <class T>
AlignedBuffer<T>::AlignedBuffer(std::int64_t count)
    : data_(static_cast<T*>(allocate_bytes(checked_bytes(count, sizeof(T))))), count_(count) {}

}  // namespace floodtide
