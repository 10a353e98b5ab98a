// SPDX-License-Identifier: Apache-2.0
#include "nn/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace floodtide::nn {
namespace {

struct Item {
  std::vector<int> passes;
  [[nodiscard]] std::size_t bytes() const noexcept { return 10; }
};
using Items = Pool<int, Item>;

/// Takes an item that no other pass uses, for this size.
Items::Lease take(Items& items, int size) {
  return items.take([=](int key, int users) { return users == 0 && key == size ? 1 : 0; }, [=](int& key) { key = size; });
}

TEST(Pool, OneThreadHasOneItem) {
  Items items;
  {
    take(items, 3)->passes.push_back(1);
  }
  {
    EXPECT_EQ(take(items, 3)->passes.size(), 1U) << "the same item";
  }
  EXPECT_EQ(items.bytes(), 10U);
  {
    const auto other = take(items, 5);
    EXPECT_EQ(items.bytes(), 0U) << "freed before the other one is made";
  }
  EXPECT_EQ(items.bytes(), 10U);
}

TEST(Pool, AtRestTwoItemsStayAndThenOne) {
  Items items;
  {
    const auto one = take(items, 3), two = take(items, 3), three = take(items, 3), four = take(items, 5);
    EXPECT_NE(&*one, &*two);
  }
  EXPECT_EQ(items.bytes(), 20U);
  {
    const auto one = take(items, 3);
  }
  EXPECT_EQ(items.bytes(), 10U);
}

TEST(Pool, TheBestFitIsTakenThenTheNewest) {
  Items items;
  const auto best = [&](int wanted) {
    return items.take([=](int key, int users) { return users > 0 || key < wanted ? 0
                                                       : key == wanted           ? 2
                                                                                 : 1; },
                      [=](int& key) { key = std::max(key, wanted); });
  };
  const auto busy = best(50);  // while a pass runs, nothing is freed
  {
    const auto large = best(9), small = best(2);
    large->passes.push_back(9);
    small->passes.push_back(2);
  }
  {
    EXPECT_EQ(best(2)->passes, std::vector<int>{2});
  }
  {
    EXPECT_EQ(best(9)->passes, std::vector<int>{9});
  }
  int last = 0;
  items.with_last([&](int key, const Item&) { last = key; });
  EXPECT_EQ(last, 9);
}

TEST(Pool, UsersShareAnItemIfItFits) {
  Items items;
  const auto share = [&] { return items.take([](int, int) { return 1; }, [](int& key) { key = 1; }); };
  const auto one = share(), two = share();
  EXPECT_EQ(&*one, &*two);
}

TEST(Pool, ThreadsNeverHaveTheSameItem) {
  Items items;
  std::vector<std::jthread> threads;
  for (int number = 0; number < 6; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < 500; ++round) {
        const auto item = take(items, round % 3);
        item->passes.assign(3, number);
        std::this_thread::yield();
        EXPECT_EQ(item->passes, std::vector<int>(3, number));
      }
    });
  }
  threads.clear();
  EXPECT_LE(items.bytes(), 20U);
}

}  // namespace
}  // namespace floodtide::nn
