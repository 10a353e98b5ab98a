// SPDX-License-Identifier: Apache-2.0
// How the examples of an epoch are shared among walkers. Examples of one class need about as many fields of view, those of
// different classes up to 27 times as many, so the classes are dealt one after the other like suits of cards: lay all
// examples out by class, each class shuffled; walker w takes the places w, w + W, w + 2 W, ... Of every class two walkers
// then have equally many examples, give or take one. Each walker goes through its own in an order of its own.
#pragma once

#include <cstdint>
#include <span>

namespace floodtide::data {

class Deal {
 public:
  /// `classes` x `per_class` examples for `walkers` walkers, all positive.
  Deal(std::uint64_t seed, std::int64_t classes, std::int64_t per_class, std::int64_t walkers) noexcept;

  struct Place {
    std::int64_t position;     ///< in the layout, 0 to size() - 1: no other walker and index of the epoch have it
    std::int64_t class_index;  ///< 0 to classes - 1
    std::int64_t number;       ///< in the class, 0 to per_class - 1
  };
  /// Example number `index` of a walker's epoch, 0 <= index < per_walker(walker). For each epoch a bijection.
  [[nodiscard]] Place place(std::int64_t walker, std::int64_t epoch, std::int64_t index) const noexcept;

  [[nodiscard]] std::int64_t size() const noexcept { return classes_ * per_class_; }
  [[nodiscard]] std::int64_t per_walker(std::int64_t walker) const noexcept;
  /// Examples of one class that a walker has in every epoch.
  [[nodiscard]] std::int64_t of_class(std::int64_t walker, std::int64_t class_index) const noexcept;
  /// The largest walker's epoch over the mean of all, minus 1; `cost` of an example by class, positive.
  [[nodiscard]] double imbalance(std::span<const double> cost) const;

 private:
  std::uint64_t seed_;
  std::int64_t classes_;
  std::int64_t per_class_;
  std::int64_t walkers_;
};

}  // namespace floodtide::data
