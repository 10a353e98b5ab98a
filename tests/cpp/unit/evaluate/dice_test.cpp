// SPDX-License-Identifier: Apache-2.0
#include "floodtide/evaluate/dice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::evaluate {
namespace {

using Classes = std::vector<std::uint8_t>;

View<const std::uint8_t, 3> row(const Classes& values) {
  return {values.data(), {1, 1, static_cast<std::int64_t>(values.size())}};
}

ErrorCode code_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "expected an Error";
  return ErrorCode::internal;
}

TEST(DiceCounts, ScoresGroupsAndPooledPixels) {
  DiceCounts counts(3, 3);
  counts.add(0, row({1, 1, 0, 0}), row({1, 0, 0, 0}));  // class 1: both 1, predicted 2, true 1
  counts.add(0, row({1, 0}), row({1, 1}));              // class 1 of group 0: now 2, 3, 3
  counts.add(2, row({0, 0, 2}), row({1, 1, 2}));        // class 1 of group 2: 0, 0, 2
  EXPECT_DOUBLE_EQ(counts.group(0, 1).value(), 4.0 / 6.0);
  EXPECT_DOUBLE_EQ(counts.group(2, 1).value(), 0.0);
  EXPECT_DOUBLE_EQ(counts.group(2, 2).value(), 1.0);
  EXPECT_DOUBLE_EQ(counts.pooled(1).value(), 4.0 / 8.0);
  EXPECT_DOUBLE_EQ(counts.mean_over_groups(1).value(), 2.0 / 6.0);
}

TEST(DiceCounts, CountTheConfusionOfAllGroups) {
  DiceCounts counts(2, 3);
  counts.add(0, row({1, 1, 0, 2}), row({1, 0, 0, 255}));
  counts.add(1, row({2, 0}), row({1, 1}));
  const std::vector<std::vector<std::int64_t>> expected{{1, 1, 0}, {1, 1, 1}, {0, 0, 0}};  // by true and predicted class
  for (std::int64_t truth = 0; truth < 3; ++truth) {
    for (std::int64_t predicted = 0; predicted < 3; ++predicted) {
      EXPECT_EQ(counts.confusion(truth, predicted),
                expected[static_cast<std::size_t>(truth)][static_cast<std::size_t>(predicted)]);
    }
  }
  EXPECT_DOUBLE_EQ(counts.everywhere(1), 2.0 * 3 / (5 + 3));
  EXPECT_DOUBLE_EQ(counts.everywhere(2), 0);
  EXPECT_EQ(code_of([&] { static_cast<void>(counts.confusion(0, 3)); }), ErrorCode::out_of_range);
}

TEST(DiceCounts, GiveNoScoreToAClassThatIsNeitherPredictedNorTrue) {
  DiceCounts counts(2, 3);
  counts.add(0, row({1, 0}), row({1, 0}));
  EXPECT_FALSE(counts.group(0, 2).has_value());
  EXPECT_FALSE(counts.group(1, 1).has_value());  // nothing was counted
  EXPECT_FALSE(counts.pooled(2).has_value());
  EXPECT_FALSE(counts.mean_over_groups(2).has_value());
  EXPECT_DOUBLE_EQ(counts.mean_over_groups(1).value(), 1.0);  // only group 0 has a score
}

TEST(DiceCounts, AddUpToOneValueHoweverImagesAreSplit) {
  constexpr std::int64_t kImages = 24;
  Philox random(5, 0);
  std::vector<Classes> predicted(kImages);
  std::vector<Classes> truth(kImages);
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    for (int pixel = 0; pixel < 50; ++pixel) {
      predicted[i].push_back(static_cast<std::uint8_t>(random.below(3)));
      truth[i].push_back(static_cast<std::uint8_t>(random.below(3)));
    }
  }
  DiceCounts whole(4, 3);
  for (std::size_t i = 0; i < predicted.size(); ++i)
    whole.add(static_cast<std::int64_t>(i) % 4, row(predicted[i]), row(truth[i]));
  for (const std::size_t ranks : {2U, 3U, 5U}) {
    std::vector<std::int64_t> sum(whole.values().size(), 0);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      DiceCounts part(4, 3);
      for (std::size_t i = rank; i < predicted.size(); i += ranks) {
        part.add(static_cast<std::int64_t>(i) % 4, row(predicted[i]), row(truth[i]));
      }
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part.values()[i];
    }
    DiceCounts together(4, 3);
    together.assign(sum);
    for (std::int64_t c = 0; c < 3; ++c) {
      EXPECT_EQ(together.pooled(c), whole.pooled(c));
      EXPECT_EQ(together.mean_over_groups(c), whole.mean_over_groups(c));
    }
  }
}

TEST(DiceCounts, LeaveOutPixelsWithoutALabel) {
  DiceCounts all(1, 2), known(1, 2);
  all.add(0, row({0, 1, 1, 0, 1}), row({0, 1, 255, 255, 0}));
  known.add(0, row({0, 1, 1}), row({0, 1, 0}));
  EXPECT_TRUE(std::ranges::equal(all.values(), known.values()));
}

TEST(DiceCounts, RefuseWhatDoesNotFit) {
  DiceCounts counts(2, 2);
  EXPECT_EQ(code_of([&] { counts.add(0, row({0, 1}), row({0})); }), ErrorCode::shape_mismatch);
  EXPECT_EQ(code_of([&] { counts.add(2, row({0}), row({0})); }), ErrorCode::out_of_range);
  EXPECT_EQ(code_of([&] { counts.add(0, row({0}), row({2})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { counts.add(0, row({255}), row({0})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { counts.assign(std::vector<std::int64_t>(3)); }), ErrorCode::shape_mismatch);
  EXPECT_EQ(code_of([&] { static_cast<void>(counts.group(0, 2)); }), ErrorCode::out_of_range);
  EXPECT_EQ(code_of([] { const DiceCounts none(0, 2); }), ErrorCode::invalid_argument);
}

TEST(MostLikelyClasses, TakeTheFirstOfTheLargestScores) {
  const std::vector<float> scores{0.2F, 0.8F, 0.0F, 0.5F, 0.25F, 0.5F, -2.0F, -3.0F, -1.0F};
  Classes classes(3);
  const View<std::uint8_t, 3> out(classes.data(), {1, 1, 3});
  most_likely_classes({scores.data(), {1, 1, 3, 3}}, out);
  EXPECT_EQ(classes, (Classes{1, 0, 2}));
  EXPECT_EQ(code_of([&] { most_likely_classes({scores.data(), {1, 3, 1, 3}}, out); }), ErrorCode::shape_mismatch);
  const std::vector<float> broken(9, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(code_of([&] { most_likely_classes({broken.data(), {1, 1, 3, 3}}, out); }), ErrorCode::numerical);
}

}  // namespace
}  // namespace floodtide::evaluate
