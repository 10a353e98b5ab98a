// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/slices.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "unit/data/stacks.hpp"

namespace floodtide::data {
namespace {

std::vector<float> values(const Tensor<float, 4>& tensor) { return {tensor.span().begin(), tensor.span().end()}; }

std::set<std::string> patients(const SliceSource& source) {
  std::set<std::string> names;
  for (std::int64_t group = 0; group < source.groups(); ++group) names.insert(source.group_name(group));
  return names;
}

TEST(SliceSource, GivesNormalisedSlicesWithTheirMasksAndPatients) {
  const TemporaryFolder folder;
  const TestStack a = make_stack(folder, "a", {5, 6, 7}, 2);
  const TestStack b = make_stack(folder, "b", {4, 6, 7}, 3, 3);  // patient 3 is in both stacks
  const SliceSource source({a.names, b.names}, slice_options());
  EXPECT_EQ(source.fixed_size(), 9);
  EXPECT_EQ(source.format().shape, (Vec3{1, 6, 7}));
  EXPECT_EQ(source.format().outputs, 3);
  EXPECT_EQ(patients(source), (std::set<std::string>{"1", "2", "3", "4"}));
  for (std::int64_t number = 0; number < 9; ++number) {
    const Sample sample = source.fixed(number);
    const auto [stack, index] = source.place(number);
    EXPECT_EQ(stack, number < 5 ? 0 : 1);
    const TestStack& from = stack == 0 ? a : b;
    EXPECT_EQ(source.group_name(sample.group), std::to_string(from.patients[static_cast<std::size_t>(index)]));
    EXPECT_EQ(sample.targets.size(), 0);
    ASSERT_EQ(sample.image.shape(), (Shape<4>{1, 6, 7, 1}));
    for (std::int64_t i = 0; i < 42; ++i) {
      const auto flat = static_cast<std::size_t>(42 * index + i);
      EXPECT_EQ(sample.image.data()[i], (static_cast<float>(from.images[flat]) - 100.0F) * 0.02F);
      EXPECT_EQ(sample.classes.data()[i], from.masks[flat]);
    }
  }
}

TEST(SliceSource, WithoutAugmentationTrainsOnTheFixedSlices) {
  const TemporaryFolder folder;
  const TestStack stack = make_stack(folder, "a", {6, 5, 5}, 2);
  const SliceSource source({stack.names}, slice_options());
  for (Cursor cursor; cursor.epoch < 2; cursor = source.next(cursor)) {
    const Sample sample = source.load(cursor);
    EXPECT_EQ(sample.cursor, cursor);
    EXPECT_EQ(values(sample.image), values(source.fixed(source.order().number(cursor)).image));
  }
}

TEST(SliceSource, AugmentationIsAFunctionOfSeedEpochAndSlice) {
  const TemporaryFolder folder;
  const TestStack stack = make_stack(folder, "a", {12, 8, 8}, 2);
  SliceOptions options = slice_options();
  options.augmentation = {true, true, 90, 0.3, 0.2, 0.1, 0.05};
  options.order = {1, 1, 3};
  const SliceSource one({stack.names}, options);
  options.order = {2, 3, 3};
  const SliceSource two({stack.names}, options);
  std::set<std::vector<float>> images;
  for (Cursor cursor; cursor.epoch < 3; cursor = two.next(cursor)) {
    const Sample sample = two.load(cursor);
    images.insert(values(sample.image));
    EXPECT_EQ(values(sample.image), values(two.load(cursor).image));
    bool found = false;
    for (std::int64_t index = 0; index < 12 && !found; ++index) {
      const Cursor alone{0, cursor.epoch, index};
      if (one.order().number(alone) != two.order().number(cursor)) continue;
      found = true;
      EXPECT_EQ(values(one.load(alone).image), values(sample.image));  // the same for every walker
    }
    EXPECT_TRUE(found);
  }
  EXPECT_EQ(images.size(), 18U);  // the half of the first walker in three epochs, without repeated images
}

TEST(SliceSource, GainOffsetAndNoiseActOnNormalisedIntensities) {
  const TemporaryFolder folder;
  const TestStack stack = make_stack(folder, "a", {4, 20, 20}, 2);
  SliceOptions options = slice_options();
  options.augmentation.gain = 0.4;
  options.augmentation.offset = 1;
  const SliceSource plain({stack.names}, slice_options());
  const SliceSource changed({stack.names}, options);
  options.augmentation.noise = 0.1;
  const SliceSource noisy({stack.names}, options);
  for (std::int64_t index = 0; index < 4; ++index) {
    const Cursor cursor{0, 0, index};
    const std::vector<float> x = values(plain.load(cursor).image);
    const std::vector<float> y = values(changed.load(cursor).image);
    const std::vector<float> z = values(noisy.load(cursor).image);
    const float gain = (y[1] - y[0]) / (x[1] - x[0]);
    const float offset = y[0] - gain * x[0];
    EXPECT_NEAR(gain, 1, 0.4001);
    EXPECT_NEAR(offset, 0, 1.0001);
    EXPECT_GT(std::abs(gain - 1) + std::abs(offset), 0.001);
    double squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], gain * x[i] + offset, 1e-4);  // `gain` has the rounding error of a quotient of differences of floats
      squares += static_cast<double>((z[i] - y[i]) * (z[i] - y[i]));
    }
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(x.size())), 0.1, 0.02);  // 5 standard deviations for 400 pixels
  }
}

TEST(SliceSource, SplitKeepsPatientsWholeAndFollowsTheSeed) {
  const TemporaryFolder folder;
  const TestStack a = make_stack(folder, "a", {30, 4, 4}, 2);
  const TestStack b = make_stack(folder, "b", {10, 4, 4}, 2, 14);
  SliceOptions options = slice_options();
  options.validation_share = 0.25;
  std::set<std::set<std::string>> splits;
  for (options.split_seed = 0; options.split_seed < 10; ++options.split_seed) {
    options.part = SlicePart::training;
    const SliceSource training({a.names, b.names}, options);
    options.part = SlicePart::validation;
    options.order.seed = options.split_seed + 1;  // the seed of the order must not affect the split
    const SliceSource validation({a.names, b.names}, options);
    std::set<std::string> all = patients(training);
    EXPECT_EQ(validation.groups(), 5);  // round(0.25 x 18)
    all.merge(patients(validation));
    EXPECT_EQ(all.size(), 18U);
    EXPECT_EQ(training.groups() + validation.groups(), 18);
    EXPECT_EQ(training.fixed_size() + validation.fixed_size(), 40);
    EXPECT_NO_THROW(require_different_patients(training, validation));
    splits.insert(patients(validation));
  }
  EXPECT_GT(splits.size(), 5U);
}

TEST(SliceSource, StacksWithoutPatientsArePatients) {
  const TemporaryFolder folder;
  std::vector<SliceStack> names;
  for (const char* name : {"a", "b", "c", "d"}) {
    names.push_back(make_stack(folder, name, {3, 4, 4}, 1).names);
    names.back().patients.clear();
  }
  SliceOptions options = slice_options();
  options.validation_share = 0.25;
  options.part = SlicePart::validation;
  const SliceSource validation(names, options);
  EXPECT_EQ(validation.fixed_size(), 3);
  ASSERT_EQ(validation.groups(), 1);
  EXPECT_NE(validation.group_name(0).find(".h5:image"), std::string::npos);
  const SliceSource same({names[static_cast<std::size_t>(validation.place(0).stack)]}, slice_options());
  expect_error([&] { require_different_patients(same, validation); }, ErrorCode::invalid_argument,
               {"validation", validation.group_name(0)});
}

TEST(SliceSource, RefusesWhatCannotWork) {
  const TemporaryFolder folder;
  const TestStack stack = make_stack(folder, "a", {6, 5, 5}, 2);
  const auto refuse = [&](const SliceOptions& options, const std::vector<std::string>& parts) {
    expect_error([&] { const SliceSource refused({stack.names}, options); }, ErrorCode::invalid_argument, parts);
  };
  SliceOptions options = slice_options();
  options.order = {2, 4, 0};
  refuse(options, {"batch", "2 walkers", "6 slices", "a.h5:image"});
  options = slice_options();
  options.part = SlicePart::validation;
  options.validation_share = 0.1;
  refuse(options, {"validation_share", "0.1", "3 patients", "validation"});
  options.part = SlicePart::training;
  options.validation_share = 0.99;
  refuse(options, {"validation_share", "0.99", "training"});
  options.validation_share = 0;
  refuse(options, {"validation_share", "above 0"});
  options = slice_options();
  options.validation_share = 0.5;
  refuse(options, {"validation_share", "0.5"});
  options = slice_options();
  options.classes = 1;
  refuse(options, {"classes", "1"});
  options = slice_options();
  options.size = {0, 4};
  refuse(options, {"size", "(0, 4)"});
  options = slice_options();
  options.std = 0;
  refuse(options, {"std", "0"});
  expect_error([] { const SliceSource refused({}, slice_options()); }, ErrorCode::invalid_argument, {"no stack"});
}

TEST(SliceSource, RefusesStacksWhosePartsDoNotFit) {
  const TemporaryFolder folder;
  const TestStack a = make_stack(folder, "a", {6, 5, 5}, 2);
  const TestStack b = make_stack(folder, "b", {6, 4, 5}, 2);
  const TestStack c = make_stack(folder, "c", {5, 5, 5}, 2);
  const auto refuse = [&](const std::vector<SliceStack>& stacks, ErrorCode code, const std::vector<std::string>& parts) {
    expect_error([&] { const SliceSource refused(stacks, slice_options()); }, code, parts);
  };
  refuse({{a.names.images, b.names.masks, ""}}, ErrorCode::shape_mismatch, {"b.h5:mask", "(6, 4, 5)", "(6, 5, 5)"});
  refuse({{a.names.images, a.names.masks, c.names.patients}}, ErrorCode::shape_mismatch, {"c.h5:patient", "5", "6"});
  refuse({{a.names.images, a.names.masks, a.names.masks.name()}}, ErrorCode::invalid_file,
         {"a.h5:mask", "one integer a slice"});
  refuse({a.names, b.names}, ErrorCode::shape_mismatch, {"b.h5:image", "4 x 5", "5 x 5", "size"});
  refuse({{a.names.images, folder.file("none.h5:mask"), ""}}, ErrorCode::invalid_file, {"none.h5"});
  SliceOptions options = slice_options();
  options.size = {4, 4};
  EXPECT_EQ(SliceSource({a.names, b.names}, options).format().shape, (Vec3{1, 4, 4}));
}

TEST(SliceSource, NamesTheSliceAndTheValueOfAnUnexpectedClass) {
  const TemporaryFolder folder;
  TestStack stack = make_stack(folder, "a", {3, 4, 5}, 1);
  stack.masks[1 * 20 + 2 * 5 + 3] = 255;
  write_dataset<std::uint8_t>(folder.file("wrong.h5"), "mask", {3, 4, 5}, stack.masks);
  stack.names.masks = folder.file("wrong.h5:mask");
  SliceOptions options = slice_options();
  options.size = {2, 2};  // the whole slice is checked, not only the part that is cut out
  const SliceSource source({stack.names}, options);
  const std::vector<std::string> message{"wrong.h5:mask", "slice 1", "class 255", "2, 3", "0 to 2", "classes = 3"};
  EXPECT_NO_THROW(static_cast<void>(source.fixed(0)));
  expect_error([&] { static_cast<void>(source.fixed(1)); }, ErrorCode::invalid_file, message);
  EXPECT_NO_THROW(source.check_masks(0, 1));
  EXPECT_NO_THROW(source.check_masks(2, 3));
  expect_error([&] { source.check_masks(0, 3); }, ErrorCode::invalid_file, message);
  expect_error([&] { source.check_masks(0, 4); }, ErrorCode::out_of_range, {"slices 0 to 4 of 3"});
  expect_error([&] { static_cast<void>(source.fixed(3)); }, ErrorCode::out_of_range, {"sample 3"});
}

TEST(SliceSource, MarksPixelsWithoutALabelInEverySpelling) {
  const TemporaryFolder folder;
  TestStack stack = make_stack(folder, "a", {2, 3, 4}, 1);
  const auto check = [&]<class T>(const char* name, T none, std::vector<T> masks) {
    masks[1 * 12 + 5] = none;
    write_dataset<T>(folder.file(name), "mask", {2, 3, 4}, masks);
    stack.names.masks = folder.file(name) + ":mask";
    const SliceSource source({stack.names}, slice_options());
    const Sample sample = source.fixed(1);
    for (std::int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(sample.classes.data()[i], i == 5 ? kUnlabelled : stack.masks[static_cast<std::size_t>(12 + i)]) << name;
    }
  };
  check("minus.h5", std::int8_t{-1}, std::vector<std::int8_t>(stack.masks.begin(), stack.masks.end()));
  check("negative.h5", std::int64_t{-7}, std::vector<std::int64_t>(stack.masks.begin(), stack.masks.end()));
  check("of32.h5", ~std::uint32_t{0}, std::vector<std::uint32_t>(stack.masks.begin(), stack.masks.end()));
  check("of64.h5", ~std::uint64_t{0}, std::vector<std::uint64_t>(stack.masks.begin(), stack.masks.end()));
  std::vector<std::uint64_t> large(stack.masks.begin(), stack.masks.end());
  large[3] = (std::uint64_t{1} << 63) + 2;
  write_dataset<std::uint64_t>(folder.file("large.h5"), "mask", {2, 3, 4}, large);
  stack.names.masks = folder.file("large.h5:mask");
  const SliceSource source({stack.names}, slice_options());
  expect_error([&] { source.check_masks(0, 2); }, ErrorCode::invalid_file, {"slice 0", "0, 3", "expected 0 to 2"});
}

TEST(SliceSource, NamesIntensitiesThatAreNoNumbers) {
  const TemporaryFolder folder;
  TestStack stack = make_stack(folder, "a", {2, 2, 2}, 1);
  write_dataset<float>(folder.file("nan.h5"), "image", {2, 2, 2},
                       {1, 2, 3, 4, 5, std::numeric_limits<float>::quiet_NaN(), 7, 8});
  stack.names.images = folder.file("nan.h5:image");
  const SliceSource source({stack.names}, slice_options());
  expect_error([&] { static_cast<void>(source.fixed(1)); }, ErrorCode::invalid_file, {"nan.h5:image", "(1, 0, 1)", "nan"});
}

}  // namespace
}  // namespace floodtide::data
