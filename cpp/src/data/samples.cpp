// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/samples.hpp"

#include <algorithm>

#include "data/purposes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::data {

SampleOrder::SampleOrder(std::int64_t size, const SampleOrderOptions& options, const std::string& what)
    : size_(size), options_(options) {
  FLOODTIDE_REQUIRE(options.walkers >= 1, invalid_argument, "walkers: ", options.walkers, " given, expected at least 1");
  FLOODTIDE_REQUIRE(options.batch >= 1, invalid_argument, "batch: ", options.batch, " given, expected at least 1");
  FLOODTIDE_REQUIRE(options.batch <= size / options.walkers, invalid_argument, "batch: ", options.walkers, " walkers with ",
                    options.batch, " each need more than the ", size, " ", what, "; expected at most as many a step");
}

void SampleOrder::check(std::int64_t walker, std::int64_t epoch) const {
  FLOODTIDE_REQUIRE(walker >= 0 && walker < options_.walkers, out_of_range, "walker ", walker, " of ", options_.walkers);
  FLOODTIDE_REQUIRE(epoch >= 0, out_of_range, "epoch ", epoch, ": expected 0 or more");
}

std::int64_t SampleOrder::taken(std::int64_t walker, std::int64_t samples) const {
  const std::int64_t rest = samples % global_batch() - walker * options_.batch;
  return samples / global_batch() * options_.batch + std::clamp<std::int64_t>(rest, 0, options_.batch);
}

std::int64_t SampleOrder::per_walker(std::int64_t walker, std::int64_t epoch) const {
  check(walker, epoch);
  return taken(walker, (epoch + 1) * size_) - taken(walker, epoch * size_);
}

std::int64_t SampleOrder::number(const Cursor& cursor) const {
  const std::int64_t count = per_walker(cursor.walker, cursor.epoch);
  FLOODTIDE_REQUIRE(cursor.index >= 0 && cursor.index < count, out_of_range, "walker ", cursor.walker, ": sample ",
                    cursor.index, " of epoch ", cursor.epoch, ", the walker has ", count);
  const std::int64_t own = taken(cursor.walker, cursor.epoch * size_) + cursor.index;
  const std::int64_t step = own / options_.batch;
  const std::int64_t position = step * global_batch() + cursor.walker * options_.batch + own % options_.batch;
  const IndexPermutation order(options_.seed, stream_id(kOrderPurpose, static_cast<std::uint64_t>(cursor.epoch)),
                               static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(position - cursor.epoch * size_)));
}

Cursor SampleOrder::next(const Cursor& cursor) const {
  if (cursor.index + 1 < per_walker(cursor.walker, cursor.epoch)) return {cursor.walker, cursor.epoch, cursor.index + 1};
  return {cursor.walker, cursor.epoch + 1, 0};
}

Cursor SampleOrder::at_step(std::int64_t walker, std::int64_t step) const {
  check(walker, 0);
  FLOODTIDE_REQUIRE(step >= 0, out_of_range, "step ", step, ": expected 0 or more");
  const std::int64_t position = step * global_batch() + walker * options_.batch;
  const std::int64_t epoch = position / size_;
  return {walker, epoch, step * options_.batch - taken(walker, epoch * size_)};
}

}  // namespace floodtide::data
