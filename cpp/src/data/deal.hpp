// SPDX-License-Identifier: Apache-2.0
// How the examples of an epoch are divided among walkers. Examples of the same class need about the same number of fields of
// view, but examples of different classes can need 27 times as many. The classes are therefore dealt one after the other. All
// examples are laid out by class, each class shuffled. Walker w of W takes the places w, w + W, w + 2 W, ... The numbers of
// examples of a class that two walkers have then differ by at most one. Each walker has its own order of its examples.
#pragma once

#include <cstdint>

#include "data/purposes.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::data {

/// Deals `classes` x `per_class` examples to `walkers` walkers. All three must be positive.
struct Deal {
  std::uint64_t seed;
  std::int64_t classes, per_class, walkers;

  struct Place {
    std::int64_t position;     ///< place in the layout, 0 to size() - 1: each occurs once in an epoch
    std::int64_t class_index;  ///< 0 to classes - 1
    std::int64_t number;       ///< number in its class, 0 to per_class - 1
  };
  /// Return example number `index` of a walker in an epoch, 0 <= index < per_walker(walker).
  [[nodiscard]] Place place(std::int64_t walker, std::int64_t epoch, std::int64_t index) const noexcept {
    const auto permuted = [this](std::uint64_t stream, std::int64_t size, std::int64_t number) {
      const IndexPermutation order(seed, stream, static_cast<std::uint64_t>(size));
      return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(number)));
    };
    const auto e = static_cast<std::uint64_t>(epoch);
    const auto w = static_cast<std::uint64_t>(walker);
    const std::int64_t turn = permuted(stream_id(kShardOrderPurpose, e, w), per_walker(walker), index);
    const std::int64_t position = walker + turn * walkers;
    const std::int64_t class_index = position / per_class;
    const std::uint64_t stream = stream_id(kOrderPurpose, e, static_cast<std::uint64_t>(class_index));
    return {position, class_index, permuted(stream, per_class, position % per_class)};
  }

  [[nodiscard]] std::int64_t size() const noexcept { return classes * per_class; }
  [[nodiscard]] std::int64_t per_walker(std::int64_t walker) const noexcept {
    return walker < size() ? (size() - walker + walkers - 1) / walkers : 0;
  }
};

}  // namespace floodtide::data
