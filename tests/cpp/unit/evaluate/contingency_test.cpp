// SPDX-License-Identifier: Apache-2.0
#include "floodtide/evaluate/contingency.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::evaluate {
namespace {

using Ids = std::vector<std::uint64_t>;

TEST(ContingencyTable, ScoresOfEqualLabellingsArePerfect) {
  ContingencyTable table;
  table.add(Ids{7, 7, 9, 9, 9}, Ids{1, 1, 2, 2, 2});
  const SegmentationScores scores = table.scores();
  EXPECT_EQ(scores.segmented.adapted_rand_error, 0.0);
  EXPECT_EQ(scores.segmented.voi_split, 0.0);
  EXPECT_EQ(scores.segmented.voi_merge, 0.0);
  EXPECT_EQ(scores.coverage, 1.0);
}

TEST(ContingencyTable, TellsSplitsFromMergers) {
  ContingencyTable split;
  split.add(Ids{1, 1, 2, 2}, Ids{5, 5, 5, 5});
  EXPECT_EQ(split.scores().all.voi_split, 1.0);
  EXPECT_EQ(split.scores().all.voi_merge, 0.0);
  EXPECT_EQ(split.scores().all.rand_precision, 1.0);
  EXPECT_DOUBLE_EQ(split.scores().all.rand_recall, 4.0 / 12.0);
  ContingencyTable merger;
  merger.add(Ids{5, 5, 5, 5}, Ids{1, 1, 2, 2});
  EXPECT_EQ(merger.scores().all.voi_split, 0.0);
  EXPECT_EQ(merger.scores().all.voi_merge, 1.0);
  EXPECT_DOUBLE_EQ(merger.scores().all.rand_precision, 4.0 / 12.0);
}

TEST(ContingencyTable, LeavesOutVoxelsWithoutTruthAndCountsCoverage) {
  ContingencyTable table;
  table.add(Ids{1, 1, 0, 0, 3, 0}, Ids{1, 1, 1, 2, 0, 0});
  const SegmentationScores scores = table.scores();
  EXPECT_EQ(scores.segmented.voxels, 2);
  EXPECT_EQ(scores.segmented.segments, 1);
  EXPECT_EQ(scores.all.voxels, 4);
  EXPECT_EQ(scores.all.segments, 2);
  EXPECT_EQ(scores.all.objects, 2);
  EXPECT_EQ(scores.coverage, 0.5);
}

TEST(ContingencyTable, PartsAddUpInAnyOrder) {
  ContingencyTable whole;
  whole.add(Ids{1, 2, 2, 0, ~std::uint64_t{0}, 3}, Ids{4, 4, 5, 5, 5, 0});
  ContingencyTable second;
  second.add(Ids{0, ~std::uint64_t{0}, 3}, Ids{5, 5, 0});
  second.add(Ids{1, 2, 2}, Ids{4, 4, 5});
  EXPECT_EQ(whole.entries(), second.entries());
  ContingencyTable merged;
  merged.add(whole.entries());
  EXPECT_EQ(merged.entries(), whole.entries());
  EXPECT_EQ(merged.scores().all.voi_split, whole.scores().all.voi_split);
}

TEST(ContingencyTable, HasNoScoreWithoutVoxels) {
  ContingencyTable table;
  table.add(Ids{0, 0, 4}, Ids{1, 1, 0});
  EXPECT_TRUE(std::isnan(table.scores().segmented.adapted_rand_error));
  EXPECT_EQ(table.scores().all.adapted_rand_error, 0.0);
  EXPECT_EQ(table.scores().coverage, 0.0);
}

TEST(ContingencyTable, CountsPairsOfLargeVolumesExactly) {
  ContingencyTable table;
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;  // the square does not fit into 64 bits
  table.add(std::vector<ContingencyTable::Entry>{{1, 1, kHuge}, {2, 1, kHuge}});
  EXPECT_DOUBLE_EQ(table.scores().all.rand_recall, (kHuge - 1.0) / (2.0 * kHuge - 1.0));
}

TEST(ContingencyTable, RefusesDifferentSizes) {
  ContingencyTable table;
  EXPECT_THROW(table.add(Ids{1, 2}, Ids{1}), Error);
}

}  // namespace
}  // namespace floodtide::evaluate
