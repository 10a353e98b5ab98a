// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/memory.hpp"

namespace floodtide {

/// Share by which statistics (ParameterLayout::add_statistic) move towards what a pass saw; PyTorch's default for batch
/// normalisation.
inline constexpr double kStatisticsMomentum = 0.1;

/// Where each named array of a network lies in one contiguous float buffer. Gradients and optimizer moments use the same
/// layout, so that one span reaches them all: one allreduce, one update.
class ParameterLayout {
 public:
  struct Entry {
    std::string name;                 ///< as in google/ffn, for example "seed_update/conv0_a/weights"
    std::vector<std::int64_t> shape;  ///< weights: kz ky kx in out; biases: out
    std::int64_t offset;              ///< first element in the buffer
    std::int64_t size;
  };

  /// Appends an array and returns its number. Names are unique (invalid_argument otherwise).
  std::size_t add(std::string name, std::vector<std::int64_t> shape);
  /// Appends an array that is not trained: a moving average of what a network sees of its data. Its part of a gradient holds
  /// what one pass saw. All of them come after the trained ones (invalid_argument otherwise).
  std::size_t add_statistic(std::string name, std::vector<std::int64_t> shape);

  [[nodiscard]] std::span<const Entry> entries() const noexcept { return entries_; }
  [[nodiscard]] const Entry& entry(std::size_t number) const { return entries_.at(number); }
  /// The entry of that name. Throws Error(invalid_argument) if there is none.
  [[nodiscard]] const Entry& find(std::string_view name) const;
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Elements in front of the statistics.
  [[nodiscard]] std::int64_t trained_size() const noexcept { return trained_size_; }

 private:
  std::vector<Entry> entries_;
  std::int64_t size_ = 0;
  std::int64_t trained_size_ = 0;
};

/// The part of a buffer with this layout that belongs to one entry.
template <class T>
[[nodiscard]] std::span<T> part(std::span<T> buffer, const ParameterLayout::Entry& entry) {
  return buffer.subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.size));
}

}  // namespace floodtide
