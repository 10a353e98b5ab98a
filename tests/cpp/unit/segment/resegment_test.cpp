// SPDX-License-Identifier: Apache-2.0
// tests/python/unit/agglomerate compares the scores with a transcription of the published procedure.
#include "floodtide/segment/resegment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "by_sign.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::segment {
namespace {

FlooderOptions small() {
  FlooderOptions options;
  options.fov = {3, 3, 3};
  options.deltas = {1, 1, 1};
  return options;
}

constexpr Vec3 kShape{7, 9, 20};

/// Return a bright slab with a dark wall at x = `wall`; none if it is negative.
Flooder slab(std::int64_t wall) {
  Tensor<float, 3> image(kShape);
  for (std::int64_t i = 0; i < image.size(); ++i) image.data()[i] = i % 20 == wall ? -1.0F : 1.0F;
  return {std::move(image), small(), by_sign};
}

/// Return two segments, 5 on the left and 9 on the right, with an empty plane at x = 10 between them.
Tensor<std::uint64_t, 3> halves() {
  Tensor<std::uint64_t, 3> labels(kShape);
  for (std::int64_t i = 0; i < labels.size(); ++i) labels.data()[i] = i % 20 < 10 ? 5 : i % 20 > 10 ? 9 : 0;
  return labels;
}

ResegmentOptions whole() {
  ResegmentOptions options;
  options.analysis_radius = {20, 20, 20};
  options.exclusion_radius = {1, 1, 1};
  return options;
}

TEST(ResegmentPair, FindsTheWholeObjectFromEachOfItsHalves) {
  Flooder flooder = slab(-1);
  const PairScores scores = resegment_pair(flooder, halves().view(), 5, 9, {3, 4, 10}, whole());
  EXPECT_EQ(scores.voxels_a, 630);
  EXPECT_EQ(scores.voxels_b, 567);
  EXPECT_EQ(scores.iou, 1.0);
  ASSERT_TRUE(scores.from_a && scores.from_b);
  EXPECT_TRUE(scores.from_a->recovered);
  EXPECT_EQ(scores.from_a->attempts, 1);
  EXPECT_GT(scores.from_a->share_of_b, 0.9);
  EXPECT_GT(scores.from_b->share_of_a, 0.9);
  EXPECT_LT(scores.from_a->start[2], 10);
  EXPECT_GT(scores.from_b->start[2], 10);
  EXPECT_EQ(scores.from_a->deleted, 0);
  EXPECT_EQ(scores.network_calls, flooder.evaluations());
}

TEST(ResegmentPair, StopsAtAWallBetweenTwoObjects) {
  ResegmentOptions options = whole();
  Flooder first = slab(10);
  const PairScores early = resegment_pair(first, halves().view(), 5, 9, {3, 4, 10}, options);
  ASSERT_TRUE(early.from_a);
  EXPECT_TRUE(early.from_a->recovered);
  EXPECT_EQ(early.from_a->share_of_b, 0.0);
  EXPECT_FALSE(early.from_b) << "the second flooding cannot change that they are two objects";
  EXPECT_FALSE(early.iou);

  options.terminate_early = false;
  Flooder second = slab(10);
  const PairScores all = resegment_pair(second, halves().view(), 5, 9, {3, 4, 10}, options);
  ASSERT_TRUE(all.from_b);
  EXPECT_EQ(all.from_b->share_of_a, 0.0);
  EXPECT_EQ(all.iou, 0.0);
}

TEST(ResegmentPair, LeavesOtherSegmentsAlone) {
  Tensor<std::uint64_t, 3> labels = halves();
  for (std::int64_t i = 0; i < labels.size(); ++i) {
    if (i % 20 > 15) labels.data()[i] = 77;
  }
  Flooder flooder = slab(-1);
  const PairScores scores = resegment_pair(flooder, labels.view(), 5, 9, {3, 4, 10}, whole());
  ASSERT_TRUE(scores.from_a);
  EXPECT_GT(flooder.logits()(3, 4, 16), 3.0F) << "in the last field of view, which is centred at 15";
  EXPECT_TRUE(std::isnan(flooder.logits()(3, 4, 17)));
}

TEST(ResegmentPair, TriesFurtherSeedsUntilEnoughIsFound) {
  ResegmentOptions options = whole();
  options.attempts = 4;
  options.recovery = 1.0;
  int calls = 0;
  Tensor<float, 3> image(kShape);
  for (float& value : image.span()) value = 1.0F;
  Flooder flooder(std::move(image), small(), [&](auto view, auto logits, auto out_logits) {
    by_sign(view, logits, out_logits);
    if (++calls <= 2) std::fill(out_logits.span().begin(), out_logits.span().end(), -4.0F);  // the first two seeds fail
  });
  const PairScores scores = resegment_pair(flooder, halves().view(), 5, 9, {3, 4, 10}, options);
  ASSERT_TRUE(scores.from_a);
  EXPECT_EQ(scores.from_a->attempts, 3);
  EXPECT_TRUE(scores.from_a->recovered);
}

TEST(ResegmentPair, KeepsSeedsAwayFromThePoint) {
  ResegmentOptions options = whole();
  options.point_exclusion = Vec3{9, 9, 7};
  Flooder flooder = slab(-1);
  const PairScores scores = resegment_pair(flooder, halves().view(), 5, 9, {3, 4, 10}, options);
  ASSERT_TRUE(scores.from_a && scores.from_b);
  EXPECT_LT(scores.from_a->start[2], 3);
  EXPECT_GT(scores.from_b->start[2], 17);
  options.point_exclusion = Vec3{9, 9, 9};
  Flooder none = slab(-1);
  EXPECT_FALSE(resegment_pair(none, halves().view(), 5, 9, {3, 4, 10}, options).from_a) << "no voxel is left";
}

TEST(ResegmentPair, RefusesWhatItCannotCompare) {
  ResegmentOptions options = whole();
  Flooder flooder = slab(-1);
  EXPECT_THROW(static_cast<void>(resegment_pair(flooder, halves().view(), 5, 6, {3, 4, 10}, options)), Error);
  EXPECT_THROW(static_cast<void>(resegment_pair(flooder, halves().view(), 5, 9, {3, 4, 20}, options)), Error);
  EXPECT_THROW(static_cast<void>(resegment_pair(flooder, Tensor<std::uint64_t, 3>({3, 3, 3}).view(), 5, 9, {1, 1, 1}, options)),
               Error);
  options.attempts = 0;
  EXPECT_THROW(static_cast<void>(resegment_pair(flooder, halves().view(), 5, 9, {3, 4, 10}, options)), Error);
}

}  // namespace
}  // namespace floodtide::segment
