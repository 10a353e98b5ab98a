// SPDX-License-Identifier: Apache-2.0
// How the examples of an epoch are divided among walkers. Examples of the same class need about the same number of fields of
// view, but examples of different classes can need 27 times as many. The classes are therefore dealt one after the other. All
// examples are laid out by class, each class shuffled. Walker w of W takes the places w, w + W, w + 2 W, ... The numbers of
// examples of a class that two walkers have then differ by at most one. Each walker has its own order of its examples.
#pragma once

#include <cstdint>

namespace floodtide::data {

class Deal {
 public:
  /// Deals `classes` x `per_class` examples to `walkers` walkers. All three must be positive.
  Deal(std::uint64_t seed, std::int64_t classes, std::int64_t per_class, std::int64_t walkers) noexcept;

  struct Place {
    std::int64_t position;     ///< place in the layout, 0 to size() - 1: each occurs once in an epoch
    std::int64_t class_index;  ///< 0 to classes - 1
    std::int64_t number;       ///< number in its class, 0 to per_class - 1
  };
  /// Return example number `index` of a walker in an epoch, 0 <= index < per_walker(walker).
  [[nodiscard]] Place place(std::int64_t walker, std::int64_t epoch, std::int64_t index) const noexcept;

  [[nodiscard]] std::int64_t size() const noexcept { return classes_ * per_class_; }
  [[nodiscard]] std::int64_t per_walker(std::int64_t walker) const noexcept;

 private:
  std::uint64_t seed_;
  std::int64_t classes_;
  std::int64_t per_class_;
  std::int64_t walkers_;
};

}  // namespace floodtide::data
