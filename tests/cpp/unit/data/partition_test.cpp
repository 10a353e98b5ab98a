// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "data/partition_block.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/volume.hpp"
#include "unit/data/files.hpp"

namespace floodtide::data {
namespace {

const std::vector<double> kThresholds{0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

/// Return the partition classes of a box of a volume, computed in plain loops from google/ffn's definition.
std::vector<std::uint8_t> reference(const std::vector<std::int64_t>& labels, const Vec3& shape,
                                    const PartitionOptions& options) {
  const Box box = options.box.value_or(Box{{0, 0, 0}, shape});
  const Vec3& r = options.lom_radius;
  const auto at = [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    return labels[static_cast<std::size_t>((z * shape[1] + y) * shape[2] + x)];
  };
  std::map<std::int64_t, std::int64_t> sizes;
  for (std::int64_t z = box.start[0]; z < box.end()[0]; ++z) {
    for (std::int64_t y = box.start[1]; y < box.end()[1]; ++y) {
      for (std::int64_t x = box.start[2]; x < box.end()[2]; ++x) ++sizes[at(z, y, x)];
    }
  }
  const double window = static_cast<double>((2 * r[0] + 1) * (2 * r[1] + 1) * (2 * r[2] + 1));
  std::vector<std::uint8_t> result(labels.size(), 255);
  for (std::int64_t z = box.start[0] + r[0]; z < box.end()[0] - r[0]; ++z) {
    for (std::int64_t y = box.start[1] + r[1]; y < box.end()[1] - r[1]; ++y) {
      for (std::int64_t x = box.start[2] + r[2]; x < box.end()[2] - r[2]; ++x) {
        const std::int64_t label = at(z, y, x);
        std::uint8_t& out = result[static_cast<std::size_t>((z * shape[1] + y) * shape[2] + x)];
        out = 0;
        if (label == 0 || sizes[label] < options.min_size) continue;
        std::int64_t count = 0;
        for (std::int64_t dz = -r[0]; dz <= r[0]; ++dz) {
          for (std::int64_t dy = -r[1]; dy <= r[1]; ++dy) {
            for (std::int64_t dx = -r[2]; dx <= r[2]; ++dx) count += at(z + dz, y + dy, x + dx) == label ? 1 : 0;
          }
        }
        const double fraction = static_cast<double>(count) / window;
        out = static_cast<std::uint8_t>(
            1 + std::count_if(options.thresholds.begin(), options.thresholds.end(), [&](double t) { return fraction >= t; }));
      }
    }
  }
  return result;
}

/// Return slabs and single voxels of random labels. Some labels are the smallest and largest 64-bit integers.
std::vector<std::int64_t> random_labels(const Vec3& shape, std::uint64_t seed) {
  const std::vector<std::int64_t> ids{
      0, 1, 7, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min(), -1};
  Philox random(seed, 1);
  std::vector<std::int64_t> labels;
  std::int64_t current = 0;
  for (std::int64_t i = 0; i < volume<3>(shape); ++i) {
    if (random.below(6) == 0) current = ids[random.below(ids.size())];
    labels.push_back(current);
  }
  return labels;
}

/// Return the classes of a volume of this shape; 255 in voxels of no block.
std::vector<std::uint8_t> partition(const std::string& labels, const Vec3& shape, const PartitionOptions& options,
                                    std::int64_t parts = 1) {
  PartitionJob job(labels, options);
  std::vector<Tensor<std::int64_t, 2>> sizes;
  const std::int64_t n = job.counting_blocks();
  for (std::int64_t part = 0; part < parts; ++part) sizes.push_back(job.count(n * part / parts, n * (part + 1) / parts));
  std::vector<View<const std::int64_t, 2>> views;
  for (const Tensor<std::int64_t, 2>& one : sizes) views.push_back(one.view());
  job.keep_large(views);
  Tensor<std::uint8_t, 3> out(shape);
  std::ranges::fill(out.span(), std::uint8_t{255});
  for (std::int64_t number = 0; number < job.blocks(); ++number) {
    const auto blocks = job.compute(number, number + 1);
    paste_box(blocks.front().view(), out.view(), job.block(number));
  }
  return {out.span().begin(), out.span().end()};
}

struct Case {
  Vec3 shape;
  Vec3 radius;
  std::int64_t min_size;
  std::optional<Box> box;
};

class PartitionCases : public ::testing::TestWithParam<Case> {};

TEST_P(PartitionCases, EqualTheReference) {
  const Case& c = GetParam();
  const TemporaryFolder folder;
  const std::vector<std::int64_t> shape(c.shape.begin(), c.shape.end());
  std::vector<std::int64_t> labels = random_labels(c.shape, 5);
  // Without sign, the least number is the id 2^63, and -1 is 2^64 - 1, which means "no label".
  write_dataset<std::uint64_t>(folder.file("labels.h5"), "d", shape, std::vector<std::uint64_t>(labels.begin(), labels.end()));
  std::ranges::replace(labels, std::int64_t{-1}, std::int64_t{0});
  const PartitionOptions options{kThresholds, c.radius, c.min_size, c.box};
  EXPECT_EQ(partition(folder.file("labels.h5:d"), c.shape, options), reference(labels, c.shape, options));
}

INSTANTIATE_TEST_SUITE_P(Shapes, PartitionCases,
                         ::testing::Values(Case{{9, 10, 11}, {2, 3, 1}, 0, {}}, Case{{9, 10, 11}, {0, 0, 0}, 100, {}},
                                           Case{{9, 10, 11}, {4, 4, 5}, 0, {}}, Case{{1, 1, 1}, {0, 0, 0}, 0, {}},
                                           Case{{12, 5, 140}, {1, 2, 3}, 1200, {}}, Case{{140, 6, 131}, {3, 1, 2}, 17000, {}},
                                           Case{{20, 20, 20}, {2, 2, 2}, 300, Box{{3, 4, 5}, {12, 13, 14}}}));

TEST(Partition, PartsOfTheCountGiveTheSameClasses) {
  const TemporaryFolder folder;
  const Vec3 shape{140, 10, 300};
  write_dataset<std::int64_t>(folder.file("labels.h5"), "d", {140, 10, 300}, random_labels(shape, 6));
  const PartitionOptions options{kThresholds, {2, 2, 2}, 50000, {}};
  EXPECT_EQ(partition(folder.file("labels.h5:d"), shape, options), partition(folder.file("labels.h5:d"), shape, options, 3));
}

TEST(Partition, ThresholdsAreReachedExactly) {
  EXPECT_EQ(threshold_counts(std::vector<double>{0, 0.1, 0.5, 1}, 10), (std::vector<std::int64_t>{0, 1, 5, 10}));
  EXPECT_EQ(threshold_counts(std::vector<double>{0.3, 0.33}, 27), (std::vector<std::int64_t>{9, 9}));
}

TEST(Partition, RefusesWhatCannotWork) {
  const TemporaryFolder folder;
  write_dataset<std::int32_t>(folder.file("labels.h5"), "d", {4, 5, 6}, std::vector<std::int32_t>(120));
  write_dataset<float>(folder.file("float.h5"), "d", {4, 5, 6}, std::vector<float>(120, 0.5F));
  const auto refuse = [&](const char* labels, const PartitionOptions& options, ErrorCode code,
                          const std::vector<std::string>& parts) {
    expect_error([&] { const PartitionJob job(folder.file(labels), options); }, code, parts);
  };
  refuse("labels.h5:d", {kThresholds, {2, 0, 0}, 0, {}}, ErrorCode::invalid_argument,
         {"labels.h5:d", "(2, 0, 0)", "(4, 5, 6)"});
  refuse("labels.h5:d", {kThresholds, {-1, 0, 0}, 0, {}}, ErrorCode::invalid_argument, {"-1"});
  refuse("labels.h5:d", {{}, {0, 0, 0}, 0, {}}, ErrorCode::invalid_argument, {"0 thresholds"});
  refuse("labels.h5:d", {{0.5, 0.4}, {0, 0, 0}, 0, {}}, ErrorCode::invalid_argument, {"0.4", "ascending"});
  refuse("labels.h5:d", {{1.5}, {0, 0, 0}, 0, {}}, ErrorCode::invalid_argument, {"1.5"});
  refuse("labels.h5:d", {kThresholds, {0, 0, 0}, 0, Box{{0, 0, 0}, {4, 5, 7}}}, ErrorCode::out_of_range, {"(4, 5, 7)"});
  refuse("none.h5:d", {kThresholds, {0, 0, 0}, 0, {}}, ErrorCode::invalid_file, {"none.h5"});
  PartitionJob job(folder.file("labels.h5:d"), {kThresholds, {0, 0, 0}, 10, {}});
  const PartitionJob odd(folder.file("float.h5:d"), {kThresholds, {0, 0, 0}, 10, {}});
  expect_error([&] { static_cast<void>(odd.count(0, 1)); }, ErrorCode::invalid_file,
               {"float.h5:d", "(0, 0, 0)", "0.5", "whole numbers"});
  const std::array<std::int64_t, 2> sizes{1, 119};
  expect_error([&] { job.keep_large({{sizes.data(), {2, 1}}}); }, ErrorCode::invalid_argument, {"119", "120"});
}

}  // namespace
}  // namespace floodtide::data
