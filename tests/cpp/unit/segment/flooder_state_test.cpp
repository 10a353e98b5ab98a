// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/flooder_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "by_sign.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/segment/flooder.hpp"

namespace floodtide::segment {
namespace {

Flooder two_objects() {
  FlooderOptions options;
  options.fov = {3, 3, 3};
  options.deltas = {1, 1, 1};
  options.min_segment_size = 8;
  options.probability = true;
  Tensor<float, 3> image({5, 11, 9});
  for (std::int64_t i = 0; i < image.size(); ++i) image.data()[i] = i / 9 % 11 == 5 ? -1.0F : 1.0F;
  return {std::move(image), options, by_sign};
}

const std::vector<Vec3> kSeeds{{2, 8, 4}, {2, 9, 4}, {2, 2, 4}};

template <class T>
std::vector<T> copy_of(View<const T, 3> view) {
  return {view.span().begin(), view.span().end()};
}

struct Moment {
  FlooderState state;
  std::vector<std::int32_t> segmentation;
  std::vector<std::uint8_t> probability;
};

void restore(Flooder& flooder, Moment moment) {
  const Vec3 shape = flooder.segmentation().shape();
  flooder.restore(std::move(moment.state), View<const std::int32_t, 3>(moment.segmentation.data(), shape),
                  View<const std::uint8_t, 3>(moment.probability.data(), shape));
}

std::vector<Moment> moments_of(Flooder& flooder) {
  std::vector<Moment> moments;
  const auto keep = [&] {
    moments.push_back({flooder.state(), copy_of(flooder.segmentation()), copy_of(flooder.probability())});
  };
  flooder.segment_all(kSeeds, {}, keep);
  keep();
  return moments;
}

TEST(FlooderState, ContinuesAtEveryMoment) {
  Flooder whole = two_objects();
  std::vector<Moment> moments = moments_of(whole);
  ASSERT_GT(moments.size(), 20U);
  ASSERT_EQ(whole.origins().size(), 2U);
  for (Moment& moment : moments) {
    Flooder flooder = two_objects();
    const std::int64_t before = moment.state.evaluations;
    restore(flooder, std::move(moment));
    std::int64_t calls = 0;
    flooder.segment_all(kSeeds, {}, [&] { ++calls; });
    EXPECT_EQ(before + calls, whole.evaluations());
    EXPECT_EQ(flooder.evaluations(), whole.evaluations());
    EXPECT_EQ(copy_of(flooder.segmentation()), copy_of(whole.segmentation()));
    EXPECT_EQ(copy_of(flooder.probability()), copy_of(whole.probability()));
    ASSERT_EQ(flooder.origins().size(), 2U);
    EXPECT_EQ(flooder.origins()[1].iterations, whole.origins()[1].iterations);
    EXPECT_EQ(flooder.counters().at("segment_at-loop-calls"), whole.counters().at("segment_at-loop-calls"));
    EXPECT_EQ(flooder.counters().at("segment_all-calls"), 1);
  }
}

/// Return a moment in the first object. A state cannot be copied.
Moment early() {
  Flooder flooder = two_objects();
  return std::move(moments_of(flooder)[3]);
}

TEST(FlooderState, RefusesOtherSeedsAndPositionsOutside) {
  Flooder flooder = two_objects();
  restore(flooder, early());
  EXPECT_THROW(flooder.segment_all(std::vector<Vec3>{{2, 2, 4}}), Error);
  for (const std::function<void(FlooderState&)>& damage : std::vector<std::function<void(FlooderState&)>>{
           [](FlooderState& state) { state.moves.queue.push_back({2, 11, 4}); },
           [](FlooderState& state) { state.growth->start = {0, 0, 0}; },
           [](FlooderState& state) { state.growth->iterations = 0; },
           [](FlooderState& state) { state.touched.start[2] = 8; },
           [](FlooderState& state) { state.logits = Tensor<float, 3>({1, 1, 1}); },
           [](FlooderState& state) { state.next_seed = -1; },
       }) {
    Moment moment = early();
    damage(moment.state);
    EXPECT_THROW(restore(flooder, std::move(moment)), Error);
  }
}

TEST(FlooderState, StartsAnewAfterAnError) {
  Flooder flooder = two_objects();
  EXPECT_THROW(flooder.segment_all(kSeeds, {}, [] { raise(ErrorCode::io, "stop"); }), Error);
  flooder.segment_all(kSeeds);
  EXPECT_EQ(flooder.origins().size(), 2U);
}

TEST(Probability, HasBytesForAllProbabilities) {
  EXPECT_EQ(quantised_probability(std::numeric_limits<float>::quiet_NaN()), 0);
  EXPECT_EQ(quantised_probability(-100.0F), 1);
  EXPECT_EQ(quantised_probability(0.0F), 128);
  EXPECT_EQ(quantised_probability(100.0F), 255);
  std::uint8_t last = 1;
  for (float logit = -8.0F; logit < 8.0F; logit += 0.01F) {
    const std::uint8_t byte = quantised_probability(logit);
    EXPECT_GE(byte, last);
    EXPECT_NEAR((byte - 0.5) / 255.0, 1.0 / (1.0 + std::exp(-static_cast<double>(logit))), 0.006);
    last = byte;
  }
}

TEST(FlooderState, ArraysThatACallerKeepsOutliveTheResult) {
  Flooder flooder = two_objects();
  flooder.segment_all(kSeeds);
  const auto segmentation = flooder.shared_segmentation();
  const auto probability = flooder.shared_probability();
  const std::vector<std::int32_t> labels = copy_of(segmentation->view());
  const std::vector<std::uint8_t> levels = copy_of(probability->view());
  {
    const Result result = flooder.take_result({0, 0, 0}, segmentation->shape());
    EXPECT_EQ(result.labels.shape(), segmentation->shape());
    EXPECT_NE(result.labels.data(), segmentation->data());
  }
  EXPECT_EQ(copy_of(segmentation->view()), labels);
  EXPECT_EQ(copy_of(probability->view()), levels);
}

}  // namespace
}  // namespace floodtide::segment
