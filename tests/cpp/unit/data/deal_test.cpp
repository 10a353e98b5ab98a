// SPDX-License-Identifier: Apache-2.0
#include "data/deal.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace floodtide::data {
namespace {

struct Sizes {
  std::int64_t classes, per_class, walkers;
};

class Deals : public ::testing::TestWithParam<Sizes> {};

TEST_P(Deals, AreBijectionsThatShareEveryClassEvenly) {
  const auto [classes, per_class, walkers] = GetParam();
  const Deal deal(5, classes, per_class, walkers);
  for (const std::int64_t epoch : {0, 3}) {
    std::set<std::pair<std::int64_t, std::int64_t>> examples;
    std::set<std::int64_t> positions;
    for (std::int64_t walker = 0; walker < walkers; ++walker) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
      for (std::int64_t index = 0; index < deal.per_walker(walker); ++index) {
        const Deal::Place place = deal.place(walker, epoch, index);
        ASSERT_TRUE(place.class_index >= 0 && place.class_index < classes && place.number >= 0 && place.number < per_class);
        examples.emplace(place.class_index, place.number);
        positions.insert(place.position);
        ++counts[static_cast<std::size_t>(place.class_index)];
      }
      for (std::int64_t i = 0; i < classes; ++i) {
        const std::int64_t count = counts[static_cast<std::size_t>(i)];
        EXPECT_TRUE(count == per_class / walkers || count == (per_class + walkers - 1) / walkers);
      }
    }
    EXPECT_EQ(std::ssize(examples), deal.size());
    EXPECT_EQ(std::ssize(positions), deal.size());
    EXPECT_EQ(*positions.rbegin(), deal.size() - 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Deals,
                         ::testing::Values(Sizes{1, 1, 1}, Sizes{3, 7, 1}, Sizes{3, 7, 4}, Sizes{5, 2, 10}, Sizes{14, 101, 8},
                                           Sizes{2, 64, 64}, Sizes{4, 10, 33}));

TEST(Deal, MixesClassesInAWalkersOrder) {
  const Deal deal(5, 2, 500, 4);
  std::int64_t first_class_early = 0;
  for (std::int64_t i = 0; i < 100; ++i) first_class_early += deal.place(1, 0, i).class_index == 0 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(first_class_early), 50, 25);  // five standard deviations
}

}  // namespace
}  // namespace floodtide::data
