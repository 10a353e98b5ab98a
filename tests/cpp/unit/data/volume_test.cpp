// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/volume.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "unit/data/files.hpp"

namespace floodtide::data {
namespace {

template <class T>
class VolumeOfType : public ::testing::Test {};
using IntegerTypes = ::testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                                      std::uint64_t, std::int64_t>;
TYPED_TEST_SUITE(VolumeOfType, IntegerTypes);

TYPED_TEST(VolumeOfType, ReadsLabelsOfEveryIntegerType) {
  const TemporaryFolder folder;
  std::vector<TypeParam> values(24);
  std::iota(values.begin(), values.end(), TypeParam{3});
  values[23] = std::numeric_limits<TypeParam>::max();
  write_dataset<TypeParam>(folder.file("a.h5"), "d", {2, 3, 4}, values, {.chunks = {1, 3, 3}, .gzip = 1});
  const VolumePtr volume = open_volume(folder.file("a.h5") + ":d");
  EXPECT_EQ(volume->type(), element_type<TypeParam>());
  EXPECT_EQ(volume->chunks(), (Vec3{1, 3, 3}));
  const Tensor<std::int64_t, 3> block = volume->read_block<std::int64_t>({{1, 1, 1}, {1, 2, 3}});
  const std::vector<std::size_t> flat{17, 18, 19, 21, 22, 23};
  for (std::size_t i = 0; i < flat.size(); ++i) {
    EXPECT_EQ(block.data()[i], static_cast<std::int64_t>(values[flat[i]]));
  }
}

TEST(Volume, ReadsImagesAsStored) {
  const TemporaryFolder folder;
  write_dataset<std::uint8_t>(folder.file("a.h5"), "d", {1, 1, 3}, {0, 128, 255});
  write_dataset<double>(folder.file("b.h5"), "d", {1, 1, 2}, {-0.5, 1e30});
  const Tensor<float, 3> bytes = open_volume(folder.file("a.h5"), "d")->read_block<float>({{0, 0, 0}, {1, 1, 3}});
  EXPECT_EQ(std::vector<float>(bytes.span().begin(), bytes.span().end()), (std::vector<float>{0, 128, 255}));
  const Tensor<float, 3> doubles = open_volume(folder.file("b.h5"), "d")->read_block<float>({{0, 0, 0}, {1, 1, 2}});
  EXPECT_EQ(doubles.data()[1], 1e30F);
}

TEST(Volume, NamesTheVoxelThatIsNotANumber) {
  const TemporaryFolder folder;
  std::vector<float> values(24, 1.0F);
  values[1 * 12 + 2 * 4 + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::string path = folder.file("a.h5");
  write_dataset<float>(path, "d", {2, 3, 4}, values);
  const VolumePtr volume = open_volume(path, "d");
  expect_error([&] { static_cast<void>(volume->read_block<float>({{1, 1, 1}, {1, 2, 3}})); }, ErrorCode::invalid_file,
               {path + ":d", "(1, 2, 3)", "nan"});
}

TEST(Volume, RefusesBoxesOutsideAndEmptyBoxes) {
  const TemporaryFolder folder;
  write_dataset<std::uint8_t>(folder.file("a.h5"), "d", {2, 2, 2}, std::vector<std::uint8_t>(8));
  const VolumePtr volume = open_volume(folder.file("a.h5"), "d");
  for (const Box& box :
       {Box{{0, 0, 0}, {3, 2, 2}}, Box{{-1, 0, 0}, {1, 1, 1}}, Box{{0, 0, 2}, {1, 1, 1}}, Box{{0, 0, 0}, {1, 0, 1}}}) {
    expect_error([&] { static_cast<void>(volume->read_block<float>(box)); }, ErrorCode::out_of_range, {"a.h5:d", "(2, 2, 2)"});
  }
}

TEST(Volume, NeverConvertsBetweenKinds) {
  const TemporaryFolder folder;
  write_dataset<float>(folder.file("f.h5"), "d", {1, 1, 1}, {0.5F});
  write_dataset<std::int32_t>(folder.file("i.h5"), "d", {1, 1, 1}, {1});
  const Box box{{0, 0, 0}, {1, 1, 1}};
  expect_error([&] { static_cast<void>(open_volume(folder.file("f.h5"), "d")->read_block<std::int64_t>(box)); },
               ErrorCode::invalid_file, {"f.h5:d", "(0, 0, 0)", "0.5", "whole numbers"});
  expect_error([&] { static_cast<void>(open_volume(folder.file("i.h5"), "d")->read_block<float>(box)); },
               ErrorCode::invalid_file, {"int32", "image"});
  expect_error([&] { static_cast<void>(open_volume(folder.file("i.h5"), "d")->read_block<std::uint8_t>(box)); },
               ErrorCode::invalid_file, {"int32", "uint8"});
}

TEST(Volume, RefusesOtherRanksAndNoVoxels) {
  const TemporaryFolder folder;
  write_dataset<float>(folder.file("a.h5"), "d", {2, 2}, {1, 2, 3, 4});
  write_dataset<float>(folder.file("b.h5"), "d", {2, 0, 2}, {});
  expect_error([&] { static_cast<void>(open_volume(folder.file("a.h5"), "d")); }, ErrorCode::invalid_file,
               {"a.h5:d", "2 axes", "(2, 2)", "three"});
  expect_error([&] { static_cast<void>(open_volume(folder.file("b.h5"), "d")); }, ErrorCode::invalid_file,
               {"b.h5:d", "(2, 0, 2)"});
}

TEST(Volume, RefusesNamesWithoutDataset) {
  for (const char* reference : {"stack.h5", ":raw", "stack.h5:", ""}) {
    expect_error([&] { static_cast<void>(open_volume(reference)); }, ErrorCode::invalid_argument, {"file:dataset"});
  }
}

/// 2 x 3 x 4 numbers from -3 on.
std::shared_ptr<const std::vector<std::int16_t>> numbers() {
  std::vector<std::int16_t> values(24);
  std::iota(values.begin(), values.end(), std::int16_t{-3});
  return std::make_shared<const std::vector<std::int16_t>>(std::move(values));
}

TEST(ArrayVolume, ReadsBoxesOfStridedArraysWithoutACopy) {
  const auto values = numbers();
  const auto* bytes = reinterpret_cast<const std::byte*>(values->data());
  const VolumePtr plain = array_volume("plain", {bytes, ElementType::int16, {2, 3, 4}, {24, 8, 2}}, values);
  // Axes reversed, and x backwards: element (z, y, x) is number (3 - z) + 4 y + 12 (1 - x).
  const VolumePtr turned = array_volume("turned", {bytes + 30, ElementType::int16, {4, 3, 2}, {-2, 8, -24}}, values);
  EXPECT_EQ(values.use_count(), 3);
  const Tensor<std::int64_t, 3> a = plain->read_block<std::int64_t>({{1, 0, 1}, {1, 2, 3}});
  EXPECT_EQ(std::vector<std::int64_t>(a.span().begin(), a.span().end()), (std::vector<std::int64_t>{10, 11, 12, 14, 15, 16}));
  const Tensor<float, 3> b = turned->read_block<float>({{0, 1, 0}, {2, 2, 2}});
  EXPECT_EQ(std::vector<float>(b.span().begin(), b.span().end()), (std::vector<float>{16, 4, 20, 8, 15, 3, 19, 7}));
  EXPECT_EQ(plain->chunks(), plain->shape());
  EXPECT_FALSE(plain->integers("box_start").has_value());
}

TEST(ArrayVolume, RefusesEmptyArraysAndMemoryOfAnotherSize) {
  const auto values = numbers();
  const auto* bytes = reinterpret_cast<const std::byte*>(values->data());
  expect_error([&] { static_cast<void>(array_volume("a", {bytes, ElementType::int16, {2, 0, 4}, {24, 8, 2}}, values)); },
               ErrorCode::invalid_file, {"a: has no voxels"});
  const VolumePtr volume = array_volume("a", {bytes, ElementType::int16, {2, 3, 4}, {24, 8, 2}}, values);
  std::vector<std::byte> memory(7);
  expect_error([&] { volume->read_stored({{0, 0, 0}, {1, 1, 4}}, memory); }, ErrorCode::shape_mismatch, {"8 bytes", "7"});
  expect_error([&] { volume->require_type<std::uint8_t>(); }, ErrorCode::invalid_file, {"int16"});
}

TEST(VolumeReference, OpensNamesAndKeepsOpenVolumes) {
  const auto values = numbers();
  const auto* bytes = reinterpret_cast<const std::byte*>(values->data());
  const VolumePtr volume = array_volume("a", {bytes, ElementType::int16, {2, 3, 4}, {24, 8, 2}}, values);
  EXPECT_EQ(VolumeReference(volume).open(), volume);
  EXPECT_EQ(VolumeReference(volume).name(), "a");
  EXPECT_TRUE(VolumeReference().empty());
  EXPECT_FALSE(VolumeReference("a.h5:raw").empty());
  expect_error([&] { static_cast<void>(VolumeReference("missing.h5:raw").open()); }, ErrorCode::invalid_file, {"missing.h5"});
}

}  // namespace
}  // namespace floodtide::data
