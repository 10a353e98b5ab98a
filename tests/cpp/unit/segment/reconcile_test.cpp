// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/reconcile.hpp"

#include <gtest/gtest.h>

#include "floodtide/base/error.hpp"
#include "floodtide/segment/components.hpp"

namespace floodtide::segment {
namespace {

using Entry = evaluate::ContingencyTable::Entry;
using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

TEST(CompareOverlap, SegmentsAgreeIfEnoughOfBothLiesInTheOther) {
  // Segment 1 has 10 voxels: 6 in segment 7, 4 in segment 8. Segment 8 has 16: 4 in segment 1, 12 in segment 2.
  const std::vector<Entry> counts{{1, 7, 6}, {1, 8, 4}, {2, 8, 12}};
  EXPECT_EQ(compare_overlap(counts, {1, 0.5}).same, (Pairs{{1, 7}, {2, 8}}));
  EXPECT_EQ(compare_overlap(counts, {1, 0.2}).same, (Pairs{{1, 7}, {1, 8}, {2, 8}}));
  EXPECT_EQ(compare_overlap(counts, {1, 0.7}).same, (Pairs{{2, 8}}));
  EXPECT_EQ(compare_overlap(counts, {7, 0.5}).same, (Pairs{{2, 8}}));
}

TEST(CompareOverlap, VoxelsThatOnlyOneSubvolumeSegmentedDoNotCount) {
  const Seam seam = compare_overlap(std::vector<Entry>{{0, 7, 1000}, {1, 0, 1000}, {1, 7, 3}}, {1, 1.0});
  EXPECT_EQ(seam.same, (Pairs{{1, 7}}));
  EXPECT_EQ(seam.split, 0);
}

TEST(CompareOverlap, CountsSegmentsThatAgreeWithNone) {
  const std::vector<Entry> counts{{1, 7, 6}, {1, 8, 4}, {2, 8, 12}};
  EXPECT_EQ(compare_overlap(counts, {1, 0.7}).split, 2);  // 1 and 7
  EXPECT_EQ(compare_overlap(counts, {7, 0.5}).split, 1);  // 7 has too few voxels to count, 1 does not
  EXPECT_EQ(compare_overlap({}, {1, 0.5}).split, 0);
}

TEST(CompareOverlap, ALargeSegmentInsideAnotherOneAgrees) {
  // Segment 1 lies inside segment 7, but is a quarter of it; the rest of 7 is empty or belongs to 2.
  const std::vector<Entry> counts{{1, 7, 25}, {2, 7, 75}};
  EXPECT_EQ(compare_overlap(counts, {1, 0.5, 25}).same, (Pairs{{1, 7}, {2, 7}}));
  EXPECT_EQ(compare_overlap(counts, {1, 0.5, 26}).same, (Pairs{{2, 7}}));  // too small
  EXPECT_EQ(compare_overlap(counts, {1, 0.5, 0}).same, (Pairs{{2, 7}}));   // no segment counts as inside
  EXPECT_EQ(compare_overlap(counts, {26, 0.5, 1}).same, (Pairs{{2, 7}}));  // min_voxels holds for all
  // Two of 25 voxels outside are more than a twentieth.
  EXPECT_EQ(compare_overlap(std::vector<Entry>{{1, 7, 23}, {1, 8, 2}, {2, 7, 77}}, {1, 0.5, 1}).same, (Pairs{{2, 7}}));
  // A fifth of the other one is enough, less is not.
  EXPECT_EQ(compare_overlap(std::vector<Entry>{{1, 7, 20}, {2, 7, 80}}, {1, 0.9, 1}).same, (Pairs{{1, 7}, {2, 7}}));
  EXPECT_EQ(compare_overlap(std::vector<Entry>{{1, 7, 19}, {2, 7, 81}}, {1, 0.9, 1}).same, (Pairs{{2, 7}}));
}

TEST(CompareOverlap, RefusesThresholdsOutOfRange) {
  EXPECT_THROW(static_cast<void>(compare_overlap({}, {0, 0.5})), Error);
  EXPECT_THROW(static_cast<void>(compare_overlap({}, {1, 0.0})), Error);
  EXPECT_THROW(static_cast<void>(compare_overlap({}, {1, 1.5})), Error);
  EXPECT_THROW(static_cast<void>(compare_overlap({}, {1, 0.5, -1})), Error);
}

TEST(Connected, ReturnsTheSmallestItemWhateverTheOrderOfPairs) {
  using Items = std::vector<std::int64_t>;
  using Edges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const Items expected{0, 1, 1, 0, 4, 1};
  EXPECT_EQ(connected(6, Edges{{3, 0}, {5, 2}, {2, 1}}), expected);
  EXPECT_EQ(connected(6, Edges{{1, 2}, {2, 5}, {0, 3}}), expected);
  EXPECT_EQ(connected(6, Edges{{5, 1}, {5, 2}, {3, 0}, {0, 3}, {4, 4}}), expected);
  EXPECT_EQ(connected(0, {}), Items{});
  EXPECT_THROW(static_cast<void>(connected(2, Edges{{0, 2}})), Error);
  EXPECT_THROW(static_cast<void>(connected(2, Edges{{-1, 0}})), Error);
}

}  // namespace
}  // namespace floodtide::segment
