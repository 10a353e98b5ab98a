// SPDX-License-Identifier: Apache-2.0
#include "data/deal.hpp"

#include <algorithm>

#include "data/purposes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::data {
namespace {

std::int64_t permuted(std::uint64_t seed, std::uint64_t stream, std::int64_t size, std::int64_t index) {
  const IndexPermutation order(seed, stream, static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(index)));
}

/// Of the places 0 to end - 1 those that are `walker` modulo `walkers`.
std::int64_t places_below(std::int64_t end, std::int64_t walker, std::int64_t walkers) {
  return end > walker ? (end - walker + walkers - 1) / walkers : 0;
}

}  // namespace

Deal::Deal(std::uint64_t seed, std::int64_t classes, std::int64_t per_class, std::int64_t walkers) noexcept
    : seed_(seed), classes_(classes), per_class_(per_class), walkers_(walkers) {}

Deal::Place Deal::place(std::int64_t walker, std::int64_t epoch, std::int64_t index) const noexcept {
  const auto e = static_cast<std::uint64_t>(epoch);
  const auto w = static_cast<std::uint64_t>(walker);
  const std::int64_t turn = permuted(seed_, stream_id(kShardOrderPurpose, e, w), per_walker(walker), index);
  const std::int64_t position = walker + turn * walkers_;
  const std::int64_t class_index = position / per_class_;
  const std::uint64_t stream = stream_id(kOrderPurpose, e, static_cast<std::uint64_t>(class_index));
  return {position, class_index, permuted(seed_, stream, per_class_, position % per_class_)};
}

std::int64_t Deal::per_walker(std::int64_t walker) const noexcept { return places_below(size(), walker, walkers_); }

std::int64_t Deal::of_class(std::int64_t walker, std::int64_t class_index) const noexcept {
  const std::int64_t begin = class_index * per_class_;
  return places_below(begin + per_class_, walker, walkers_) - places_below(begin, walker, walkers_);
}

double Deal::imbalance(std::span<const double> cost) const {
  FLOODTIDE_ASSERT(static_cast<std::int64_t>(cost.size()) == classes_);
  double all = 0;
  double most = 0;
  for (std::int64_t walker = 0; walker < walkers_; ++walker) {
    double own = 0;
    for (std::int64_t i = 0; i < classes_; ++i) {
      own += cost[static_cast<std::size_t>(i)] * static_cast<double>(of_class(walker, i));
    }
    all += own;
    most = std::max(most, own);
  }
  return most * static_cast<double>(walkers_) / all - 1;
}

}  // namespace floodtide::data
