// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/flooder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "by_sign.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::segment {
namespace {

FlooderOptions small() {
  FlooderOptions options;
  options.fov = {3, 3, 3};
  options.deltas = {1, 1, 1};
  options.min_segment_size = 8;
  return options;
}

/// Return an image of two slabs along x, separated by a wall at y = 6.
Tensor<float, 3> two_slabs() {
  Tensor<float, 3> image({7, 13, 20});
  for (std::int64_t z = 0; z < 7; ++z) {
    for (std::int64_t y = 0; y < 13; ++y) {
      for (std::int64_t x = 0; x < 20; ++x) image.view()(z, y, x) = y == 6 ? -1.0F : 1.0F;
    }
  }
  return image;
}

TEST(Flooder, FillsAnObjectAndStopsAtItsWalls) {
  Flooder flooder(two_slabs(), small(), by_sign);
  EXPECT_GT(flooder.segment_at({3, 3, 4}), 1);
  EXPECT_GT(flooder.logits()(3, 2, 15), 3.0F);
  EXPECT_EQ(flooder.logits()(3, 6, 4), -4.0F);
  EXPECT_TRUE(std::isnan(flooder.logits()(3, 12, 4)));
}

TEST(Flooder, GivesSegmentsNumbersInTheOrderOfSeeds) {
  Flooder flooder(two_slabs(), small(), by_sign);
  flooder.segment_all(std::vector<Vec3>{{3, 9, 4}, {3, 3, 4}, {3, 9, 10}});
  ASSERT_EQ(flooder.origins().size(), 2U);
  const Result result = flooder.take_result({10, 20, 30}, {100, 100, 100});
  EXPECT_EQ(result.labels.view()(3, 9, 10), 1);
  EXPECT_EQ(result.labels.view()(3, 3, 10), 2);
  EXPECT_EQ(result.labels.view()(3, 6, 10), 0);
  EXPECT_EQ(result.origins[0].start, (Vec3{13, 29, 34}));
  EXPECT_EQ(result.origins[0].voxels, std::count(result.labels.span().begin(), result.labels.span().end(), 1));
  EXPECT_EQ(result.counters.at("segment_at-loop-calls"), 2) << "the third seed lies in the first object";
}

TEST(Flooder, MarksSeedsThatFail) {
  FlooderOptions options = small();
  options.min_segment_size = 100000;
  Flooder flooder(two_slabs(), options, by_sign);
  flooder.segment_all(std::vector<Vec3>{{3, 6, 4}, {3, 3, 4}});
  EXPECT_EQ(flooder.segmentation()(3, 6, 4), -1) << "weak: the network calls it background";
  EXPECT_EQ(flooder.segmentation()(3, 3, 4), -1) << "too small";
  EXPECT_TRUE(flooder.counters().contains("invalid-weak-time-ms"));
  EXPECT_TRUE(flooder.counters().contains("invalid-small-time-ms"));
  const Result result = flooder.take_result({0, 0, 0}, {7, 13, 20});
  EXPECT_EQ(std::count(result.labels.span().begin(), result.labels.span().end(), 0), result.labels.size());
}

TEST(Flooder, RefusesSeedsNextToASegment) {
  FlooderOptions options = small();
  options.min_boundary_dist = {0, 1, 0};
  Flooder flooder(two_slabs(), options, by_sign);
  const std::vector<Vec3> seeds{{3, 3, 4}, {3, 6, 4}, {3, 9, 4}};
  flooder.segment_all(seeds);
  EXPECT_EQ(flooder.segmentation()(3, 6, 4), -1);
  EXPECT_EQ(flooder.counters().at("segment_at-loop-calls"), 2);
}

TEST(Flooder, LetsTheFirstSegmentKeepItsVoxels) {
  FlooderOptions options = small();
  int calls = 0;
  // The second object covers the whole volume.
  Flooder flooder(two_slabs(), options, [&](auto image, auto logits, auto out_logits) {
    by_sign(image, logits, out_logits);
    for (float& value : out_logits.span()) value = calls > 0 ? std::abs(value) : value;
  });
  flooder.segment_all(std::vector<Vec3>{{3, 3, 4}});
  const std::int64_t first = flooder.origins()[0].voxels;
  calls = 1;
  flooder.segment_all(std::vector<Vec3>{{3, 9, 4}});
  ASSERT_EQ(flooder.overlaps().size(), 1U);
  EXPECT_EQ(flooder.overlaps()[0].earlier_id, 1);
  EXPECT_EQ(std::count(flooder.segmentation().span().begin(), flooder.segmentation().span().end(), 1), first);
  EXPECT_EQ(flooder.counters().at("voxels-overlapping"), flooder.overlaps()[0].voxels);
}

TEST(Flooder, CountsVoxelsThatWereObjectForAWhile) {
  int calls = 0;
  Flooder flooder(two_slabs(), small(), [&](auto image, auto logits, auto out_logits) {
    by_sign(image, logits, out_logits);
    if (++calls == 3) {  // the third field of view shares 18 voxels with each of its neighbours
      for (float& value : out_logits.span()) value = value > 3.9F ? value : -4.0F;
    }
  });
  std::vector<std::int64_t> deleted;
  flooder.segment_at({3, 3, 4}, [&](const Move& move) { deleted.push_back(deleted_voxels(move)); });
  EXPECT_EQ(std::vector<std::int64_t>(deleted.begin(), deleted.begin() + 2), (std::vector<std::int64_t>{0, 0}));
  EXPECT_GE(deleted[2], 9);
}

TEST(Flooder, StopsWhenTheCallerThrows) {
  Flooder flooder(two_slabs(), small(), by_sign);
  const auto stop = [](const Move&) { throw std::runtime_error("stop"); };
  EXPECT_THROW(flooder.segment_at({3, 3, 4}, stop), std::runtime_error);
}

TEST(Flooder, RefusesAnswersThatAreNoNumbers) {
  Flooder flooder(two_slabs(), small(), [](auto, auto, auto out_logits) {
    std::fill(out_logits.span().begin(), out_logits.span().end(), std::numeric_limits<float>::quiet_NaN());
  });
  try {
    flooder.segment_at({3, 3, 4});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::numerical);
  }
}

TEST(Flooder, RefusesOptionsThatDoNotFit) {
  const auto refuses = [](auto change) {
    FlooderOptions options = small();
    change(options);
    EXPECT_THROW(Flooder(two_slabs(), options, by_sign), Error);
  };
  refuses([](FlooderOptions& o) { o.fov = {9, 3, 3}; });
  refuses([](FlooderOptions& o) { o.fov = {2, 3, 3}; });
  refuses([](FlooderOptions& o) { o.deltas = {2, 1, 1}; });
  refuses([](FlooderOptions& o) { o.deltas = {-1, 1, 1}; });
  refuses([](FlooderOptions& o) { o.move_threshold = 1.0; });
  refuses([](FlooderOptions& o) { o.min_boundary_dist = {-1, 0, 0}; });
  refuses([](FlooderOptions& o) { o.min_segment_size = -1; });
  Flooder flooder(two_slabs(), small(), by_sign);
  EXPECT_THROW(flooder.segment_at({0, 3, 4}), Error);
}

TEST(Normalised, NamesTheVoxelThatIsNoNumber) {
  Tensor<float, 3> raw({2, 3, 4});
  raw.view()(1, 2, 3) = std::numeric_limits<float>::infinity();
  try {
    static_cast<void>(normalised(raw.view(), 128.0, 33.0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("(1, 2, 3)"), std::string::npos) << error.what();
  }
  EXPECT_THROW(static_cast<void>(normalised(raw.view(), 128.0, 0.0)), Error);
}

}  // namespace
}  // namespace floodtide::segment
