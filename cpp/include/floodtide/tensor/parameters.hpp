// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/memory.hpp"

namespace floodtide {

/// Weight of the newest batch in a moving statistic (ParameterLayout::add_statistic). The value is PyTorch's default for batch
/// normalisation.
inline constexpr double kStatisticsMomentum = 0.1;

/// Names, shapes and offsets of the arrays of a network in one contiguous float buffer. Parameters, gradients and optimizer
/// moments all use this layout.
class ParameterLayout {
 public:
  struct Entry {
    std::string name;                 ///< flood-filling networks: as in google/ffn, such as "seed_update/conv0_a/weights"
    std::vector<std::int64_t> shape;  ///< weights: (kz, ky, kx, in, out); biases: (out)
    std::int64_t offset;              ///< index of the first element in the buffer
    std::int64_t size;                ///< number of elements
  };

  /// Appends a trained array and returns its index. Throws Error(invalid_argument) if the name is used already, or if a
  /// statistic was added before.
  std::size_t add(std::string name, std::vector<std::int64_t> shape);
  /// Appends an array that is not trained, and returns its index: a moving average of a statistic of the training data. In a
  /// gradient buffer, this array holds the statistic of one pass. Statistics come after all trained arrays. Throws
  /// Error(invalid_argument) if the name is used already.
  std::size_t add_statistic(std::string name, std::vector<std::int64_t> shape);

  [[nodiscard]] std::span<const Entry> entries() const noexcept { return entries_; }
  [[nodiscard]] const Entry& entry(std::size_t number) const { return entries_.at(number); }
  /// Return the entry with this name. Throws Error(invalid_argument) for an unknown name.
  [[nodiscard]] const Entry& find(std::string_view name) const;
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Return the number of trained elements. They come before the statistics.
  [[nodiscard]] std::int64_t trained_size() const noexcept { return trained_size_; }

 private:
  std::vector<Entry> entries_;
  std::int64_t size_ = 0;
  std::int64_t trained_size_ = 0;
};

/// Return the part of a buffer that belongs to one entry of the layout.
template <class T>
[[nodiscard]] std::span<T> part(std::span<T> buffer, const ParameterLayout::Entry& entry) {
  return buffer.subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.size));
}

}  // namespace floodtide
