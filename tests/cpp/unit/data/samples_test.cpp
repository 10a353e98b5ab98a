// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/samples.hpp"

#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

#include "unit/data/labelled_image.hpp"

namespace floodtide::data {
namespace {

/// Parameters of a test: (size, walkers, batch).
using Deal = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

class SampleOrders : public ::testing::TestWithParam<Deal> {
 protected:
  [[nodiscard]] static SampleOrder order(std::uint64_t seed = 7) {
    const auto [size, walkers, batch] = GetParam();
    return {size, {walkers, batch, seed}, "slices"};
  }
};

TEST_P(SampleOrders, GiveEverySampleOnceAnEpoch) {
  const SampleOrder order = SampleOrders::order();
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<int> times(static_cast<std::size_t>(order.size()), 0);
    for (std::int64_t walker = 0; walker < order.options().walkers; ++walker) {
      EXPECT_GE(order.per_walker(walker, epoch), order.options().batch);
      for (std::int64_t index = 0; index < order.per_walker(walker, epoch); ++index) {
        ++times.at(static_cast<std::size_t>(order.number({walker, epoch, index})));
      }
    }
    EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << "epoch " << epoch;
  }
}

TEST_P(SampleOrders, AreTheBatchesOfOneEndlessRow) {
  const SampleOrder order = SampleOrders::order();
  const auto [size, walkers, batch] = GetParam();
  const SampleOrder alone(size, {1, 1, 7}, "slices");
  std::vector<Cursor> cursors;
  for (std::int64_t walker = 0; walker < walkers; ++walker) cursors.push_back({walker, 0, 0});
  std::int64_t position = 0;
  for (std::int64_t step = 0; step < 3 * size / order.global_batch() + 2; ++step) {
    for (Cursor& cursor : cursors) {
      EXPECT_EQ(cursor, order.at_step(cursor.walker, step));
      for (std::int64_t slot = 0; slot < batch; ++slot, ++position) {
        EXPECT_EQ(cursor.epoch, position / size);
        EXPECT_EQ(order.number(cursor), alone.number({0, position / size, position % size}));
        cursor = order.next(cursor);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SampleOrders,
                         ::testing::Values(Deal{1, 1, 1}, Deal{5, 1, 1}, Deal{12, 3, 4}, Deal{13, 3, 4}, Deal{23, 3, 4},
                                           Deal{24, 1, 5}, Deal{31, 31, 1}, Deal{97, 8, 3}));

TEST(SampleOrder, DependsOnSeedAndEpoch) {
  const SampleOrder one(50, {1, 1, 1}, "slices");
  const SampleOrder two(50, {1, 1, 2}, "slices");
  int same_seed = 0;
  int same_epoch = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    if (one.number({0, 0, i}) == two.number({0, 0, i})) ++same_seed;
    if (one.number({0, 0, i}) == one.number({0, 1, i})) ++same_epoch;
  }
  EXPECT_LT(same_seed, 10);
  EXPECT_LT(same_epoch, 10);
}

TEST(SampleOrder, RefusesWhatCannotWork) {
  const auto refuse = [](std::int64_t walkers, std::int64_t batch, const std::vector<std::string>& parts) {
    expect_error([&] { const SampleOrder refused(20, {walkers, batch, 0}, "slices of a.h5:image"); },
                 ErrorCode::invalid_argument, parts);
  };
  refuse(4, 6, {"batch", "4 walkers", "6", "20 slices of a.h5:image"});
  refuse(21, 1, {"21 walkers", "20 slices"});
  refuse(0, 1, {"walkers", "0"});
  refuse(1, 0, {"batch", "0"});
  const SampleOrder order(20, {3, 2, 0}, "slices");
  expect_error([&] { static_cast<void>(order.number({3, 0, 0})); }, ErrorCode::out_of_range, {"walker 3 of 3"});
  expect_error([&] { static_cast<void>(order.number({0, 0, 8})); }, ErrorCode::out_of_range, {"sample 8", "has 8"});
  expect_error([&] { static_cast<void>(order.next({0, -1, 0})); }, ErrorCode::out_of_range, {"epoch -1"});
}

TEST(SamplePrefetcher, DeliversWhatLoadGivesFromAStep) {
  const TemporaryFolder folder;
  PatchOptions options;
  options.patch = {1, 6, 6};
  options.patches = 11;
  options.order = {2, 3, 5};
  options.augmentation.rotation_deg = 20;
  const auto patches = patches_of(make_labelled_image(folder, "a", {3, 9, 12}), {{{0, 0, 0}, {3, 9, 12}}}, options);
  const PatchSource& source = *patches;
  const std::int64_t step = 4;
  SamplePrefetcher prefetcher(source, {source.order().at_step(0, step), source.order().at_step(1, step)}, 6, 2);
  for (std::int64_t slot = 0; slot < 2; ++slot) {
    Cursor expected = source.order().at_step(slot, step);
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(prefetcher.cursor(slot), expected);
      const Sample sample = prefetcher.next(slot);
      const Sample again = source.load(expected);
      EXPECT_EQ(sample.cursor, expected);
      EXPECT_TRUE(std::equal(sample.image.span().begin(), sample.image.span().end(), again.image.data()));
      expected = source.next(expected);
    }
  }
  expect_error([&] { const SamplePrefetcher refused(source, {{2, 0, 0}}, 1, 1); }, ErrorCode::out_of_range, {"walker 2 of 2"});
}

}  // namespace
}  // namespace floodtide::data
