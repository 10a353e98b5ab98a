// SPDX-License-Identifier: Apache-2.0
#include "data/deal.hpp"

#include "data/purposes.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::data {
namespace {

std::int64_t permuted(std::uint64_t seed, std::uint64_t stream, std::int64_t size, std::int64_t index) {
  const IndexPermutation order(seed, stream, static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(index)));
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

std::int64_t Deal::per_walker(std::int64_t walker) const noexcept {
  return walker < size() ? (size() - walker + walkers_ - 1) / walkers_ : 0;
}

}  // namespace floodtide::data
