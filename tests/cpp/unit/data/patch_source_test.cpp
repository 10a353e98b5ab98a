// SPDX-License-Identifier: Apache-2.0
// What a source of patches refuses. What it reads is compared with NumPy and SciPy in tests/python/unit/data/test_patches.py.
#include "floodtide/data/patch_source.hpp"

#include <gtest/gtest.h>

#include "unit/data/labelled_image.hpp"

namespace floodtide::data {
namespace {

constexpr Vec3 kShape{6, 20, 24};
constexpr Box kAll{{0, 0, 0}, kShape};

class PatchSourceTest : public ::testing::Test {
 protected:
  PatchSourceTest() : image_(make_labelled_image(folder_, "a", kShape)) { options_.patch = {2, 8, 8}; }

  /// Labels of the image as one plane of value 1 and no label elsewhere, at a place in the image.
  void labels_are(const Vec3& shape, const Vec3& start, std::int16_t value = 1) {
    const auto count = static_cast<std::size_t>(volume<3>(shape));
    write_dataset<std::int16_t>(folder_.file("other.h5"), "d", {shape[0], shape[1], shape[2]},
                                std::vector<std::int16_t>(count, value));
    image_.labels = {{folder_.file("other.h5") + ":d", {}}};
    image_.labels_start = start;
  }
  void refuse(const std::vector<Box>& boxes, ErrorCode code, const std::vector<std::string>& parts) const {
    expect_error([&] { static_cast<void>(patches_of(image_, boxes, options_)); }, code, parts);
  }

  TemporaryFolder folder_;
  LabelledImage image_;
  PatchOptions options_;
};

TEST_F(PatchSourceTest, RefusesABoxOutsideOfTheImage) {
  refuse({{{0, 0, 0}, {6, 20, 25}}}, ErrorCode::out_of_range,
         {"a.h5:image", "box = \"0:6,0:20,0:25\"", "not inside the volume (6, 20, 24)"});
  refuse({kAll, {{1, 1, 1}, {1, 0, 1}}}, ErrorCode::out_of_range, {"box = \"1:2,1:1,1:2\""});
  refuse({}, ErrorCode::invalid_argument, {"no region"});
}

TEST_F(PatchSourceTest, RefusesABoxWithoutLabels) {
  labels_are({2, 20, 24}, {1, 0, 0});
  EXPECT_EQ(patches_of(image_, {kAll}, options_)->label_counts(), (std::vector<std::int64_t>{0, 2 * 20 * 24, 0}));
  refuse({kAll, {{3, 0, 0}, {3, 20, 24}}}, ErrorCode::out_of_range,
         {"box = \"3:6,0:20,0:24\"", "no voxel of the labels", "other.h5:d", "box = \"1:3,0:20,0:24\""});
  labels_are({2, 20, 24}, {1, 0, 0}, -1);
  refuse({kAll}, ErrorCode::invalid_argument, {"other.h5:d", "no voxel of box = \"0:6,0:20,0:24\" has a label"});
}

TEST_F(PatchSourceTest, RefusesLabelsThatReachBeyondTheImage) {
  labels_are({2, 20, 24}, {5, 0, 0});
  refuse({kAll}, ErrorCode::out_of_range, {"other.h5:d", "(5, 0, 0)", "a.h5:image", "labels_start"});
}

TEST_F(PatchSourceTest, RefusesPatchesThatNoVolumeHolds) {
  options_.patch = {7, 8, 8};
  refuse({kAll}, ErrorCode::invalid_argument, {"a.h5:image", "patches of (7, 8, 8)", "(6, 20, 24)", "data.patch"});
  options_.patch = {0, 8, 8};
  refuse({kAll}, ErrorCode::invalid_argument, {"patch", "(0, 8, 8)"});
}

TEST_F(PatchSourceTest, RefusesWeightsThatDrawNothing) {
  options_.class_weights = {0, 0, 0};
  refuse({kAll}, ErrorCode::invalid_argument, {"class_weights", "weight 0"});
  options_.class_weights = {1, 0};
  refuse({kAll}, ErrorCode::invalid_argument, {"class_weights", "2 given", "3 classes"});
  labels_are(kShape, {0, 0, 0}, 2);
  options_.class_weights = {1, 1, 0};  // no voxel has class 0 or 1
  refuse({kAll}, ErrorCode::invalid_argument, {"class_weights", "weight 0"});
}

TEST_F(PatchSourceTest, RefusesAClassThatTargetsDoNotHave) {
  labels_are(kShape, {0, 0, 0}, 7);
  refuse({kAll}, ErrorCode::invalid_file, {"other.h5:d", "class 7", "0 to 2"});
}

TEST(Targets, RefuseMarginsThatNoMemoryHolds) {
  expect_error([] { static_cast<void>(distance_targets(1e300, {1, 1, 1})); }, ErrorCode::invalid_argument, {"1e+300", "1000"});
  expect_error([] { static_cast<void>(affinity_targets({.descriptors = {1, 1e9, 1}})); }, ErrorCode::invalid_argument,
               {"descriptors", "1e+09", "1000"});
}

TEST_F(PatchSourceTest, TargetsSayWhichAreSoft) {
  const auto soft_from = [&](std::shared_ptr<const Targets> targets) {
    const auto source = patches_of(image_, {kAll}, options_, std::move(targets));
    return std::pair(source->targets().soft_from(), source->targets().outputs());
  };
  EXPECT_EQ(soft_from(class_targets(3)), std::pair(std::int64_t{3}, std::int64_t{3}));
  EXPECT_EQ(soft_from(affinity_targets({})), std::pair(std::int64_t{3}, std::int64_t{3}));
  EXPECT_EQ(soft_from(affinity_targets({.descriptors = {1, 1, 1}})), std::pair(std::int64_t{3}, std::int64_t{13}));
  EXPECT_EQ(soft_from(distance_targets(2, {1, 1, 1})), std::pair(std::int64_t{0}, std::int64_t{1}));
}

}  // namespace
}  // namespace floodtide::data
