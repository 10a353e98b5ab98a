// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/labels.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "unit/data/files.hpp"

namespace floodtide::data {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

class LabelsTest : public ::testing::Test {
 protected:
  /// Write values as one row, and return a part with them.
  template <class T>
  Labels::Part part(const std::string& name, const std::vector<T>& values, LabelMap map = {}) const {
    write_dataset<T>(folder_.file(name + ".h5"), "d", {1, 1, std::ssize(values)}, values);
    return {folder_.file(name + ".h5") + ":d", std::move(map)};
  }
  /// Return the labels of all voxels of the parts.
  static std::vector<std::int64_t> read(const std::vector<Labels::Part>& parts) {
    const Labels labels(parts, {0, 0, 0});
    const Tensor<std::int64_t, 3> found = labels.read(labels.box(), labels.box());
    return {found.span().begin(), found.span().end()};
  }
  TemporaryFolder folder_;
};

TEST_F(LabelsTest, KeepIdsOf64Bits) {
  constexpr std::uint64_t kLarge = (std::uint64_t{1} << 53) + 1, kLargest = ~std::uint64_t{0};
  const std::vector<std::int64_t> expected{0, (std::int64_t{1} << 53) + 1, kLeast + 5, -4, -1, -1, -1, -1};
  EXPECT_EQ(read({part<std::uint64_t>("a", {0, kLarge, (std::uint64_t{1} << 63) + 5, kLargest - 3, kLargest - 2, kLargest - 1,
                                            kLargest, 0xFFFFFFFF})}),
            expected);
  EXPECT_TRUE(is_object(expected[2]));
  const Tensor<std::int64_t, 3> objects = read_objects(*open_volume(folder_.file("a.h5"), "d"), {{}, {1, 1, 8}});
  EXPECT_EQ(std::vector(objects.span().begin(), objects.span().end()),
            (std::vector<std::int64_t>{0, expected[1], expected[2], -4, 0, 0, 0, 0}));
}

TEST_F(LabelsTest, NegativeValuesMeanNoLabelUnlessTheMapSaysOtherwise) {
  EXPECT_EQ(read({part<std::int32_t>("a", {-7, -1, 0, 3})}), (std::vector<std::int64_t>{-1, -1, 0, 3}));
  EXPECT_EQ(read({part<std::int32_t>("b", {-7, -1, 0, 3}, {{{-7, 2}, {0, kNoLabel}}})}),
            (std::vector<std::int64_t>{2, -1, -1, 3}));
  EXPECT_EQ(read({part<std::int32_t>("c", {-1, -1, 3}, {{{-1, 0}}})}), (std::vector<std::int64_t>{0, 0, 3}));
}

TEST_F(LabelsTest, WholeNumbersOfFloatsAreLabels) {
  EXPECT_EQ(read({part<float>("a", {0, 255, -1, 16777216})}), (std::vector<std::int64_t>{0, 255, -1, 16777216}));
  EXPECT_EQ(read({part<double>("b", {-0.0, 9007199254740992.0})}), (std::vector<std::int64_t>{0, 9007199254740992}));
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double odd : {0.5, 1e19, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    expect_error([&] { read({part<double>("c", {1, odd})}); }, ErrorCode::invalid_file,
                 {"c.h5:d", "voxel (0, 0, 1) (z, y, x)", str_cat("is ", odd), "whole numbers"});
  }
}

TEST_F(LabelsTest, AValueWithoutARowSaysWhichLineAcceptsIt) {
  const LabelMap classes{{{0, 0}, {255, 1}}, LabelMap::kRefuse};
  EXPECT_EQ(read({part<std::uint8_t>("a", {255, 0}, classes)}), (std::vector<std::int64_t>{1, 0}));
  expect_error([&] { read({part<std::uint8_t>("b", {0, 255, 7}, classes)}); }, ErrorCode::invalid_file,
               {"b.h5:d", "value 7 at (0, 0, 2)", "0, 255", "task.classes = { ..., 7 = \"NAME\" }", "data.unlabelled = 7"});
  expect_error([&] { read({part<std::uint64_t>("c", {std::uint64_t{1} << 63}, classes)}); }, ErrorCode::invalid_file,
               {"value 9223372036854775808 at"});
  expect_error([&] { read({part<std::uint8_t>("d", {0}, {{{3, 0}, {3, 1}}})}); }, ErrorCode::invalid_argument,
               {"d.h5:d", "value 3 has two labels"});
}

TEST_F(LabelsTest, MasksAreClassesThatMayNotOverlap) {
  const auto mask = [&](const std::string& name, const std::vector<std::uint8_t>& values, std::int64_t label) {
    return part<std::uint8_t>(name, values, {{{0, 0}}, label});
  };
  EXPECT_EQ(read({mask("a", {1, 0, 0}, 1), mask("b", {0, 255, 0}, 2)}), (std::vector<std::int64_t>{1, 2, 0}));
  expect_error([&] { read({mask("c", {1, 1, 0}, 1), mask("d", {0, 255, 0}, 2)}); }, ErrorCode::invalid_file,
               {"d.h5:d", "data.volumes.masks", "(0, 0, 1)", "class 2", "class 1"});
  expect_error([&] { read({mask("e", {1, 1}, 1), mask("f", {0}, 2)}); }, ErrorCode::shape_mismatch, {"f.h5:d", "e.h5:d"});
}

TEST_F(LabelsTest, AreUnknownOutsideOfTheirBox) {
  const Labels labels({part<std::uint8_t>("a", {3, 4})}, {0, 0, 1});
  EXPECT_EQ(labels.box(), (Box{{0, 0, 1}, {1, 1, 2}}));
  const Tensor<std::int64_t, 3> found = labels.read({{-1, 0, 0}, {2, 1, 4}}, labels.box());
  EXPECT_EQ(std::vector(found.span().begin(), found.span().end()), (std::vector<std::int64_t>{-1, -1, -1, -1, -1, 3, 4, -1}));
}

}  // namespace
}  // namespace floodtide::data
