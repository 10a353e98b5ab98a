// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/coordinates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "floodtide/base/error.hpp"
#include "unit/data/scene.hpp"

namespace floodtide::data {
namespace {

std::vector<std::int32_t> values(const Tensor<std::int32_t, 2>& rows) { return {rows.span().begin(), rows.span().end()}; }

TEST(Coordinates, HoldEveryClassEquallyOftenInAShuffledOrder) {
  const TemporaryFolder folder;
  const Scene a = make_scene(folder, "a", 1);
  const Scene b = make_scene(folder, "b", 2);
  const Vec3 margin{1, 2, 3};
  const CoordinatesJob job({{"a", a.options.partitions}, {"b", b.options.partitions}}, margin, 9);
  const std::vector<std::int32_t> rows = values(job.rows(0, job.size()));

  std::map<int, std::int64_t> per_class;
  std::int64_t in_first_volume = 0;
  for (std::size_t i = 0; i < rows.size(); i += 4) {
    const Scene& scene = rows[i] == 0 ? a : b;
    const Vec3 at{rows[i + 1], rows[i + 2], rows[i + 3]};
    EXPECT_TRUE((Box{margin, {18, 18, 18}}).contains(at));
    ++per_class[scene.partitions[scene.flat(at)]];
    if (i < rows.size() / 2 && rows[i] == 0) ++in_first_volume;
  }
  EXPECT_EQ(job.classes(), (std::vector<int>{0, 3, 9}));
  ASSERT_EQ(per_class.size(), 3U);
  for (const auto& [value, count] : per_class) EXPECT_EQ(count * 3, job.size()) << "class " << value;
  // The rows are shuffled: about half of the centres in the first half are from each volume. Tolerance: 20 standard deviations.
  const auto half = static_cast<double>(job.size()) / 2;
  EXPECT_NEAR(static_cast<double>(in_first_volume), half / 2, 20 * std::sqrt(half) / 2);
}

/// Return a volume over bytes that the caller may change.
VolumePtr changeable(std::vector<std::uint8_t>& bytes, const Vec3& shape) {
  const auto* const data = reinterpret_cast<const std::byte*>(bytes.data());
  return array_volume("partitions", {data, ElementType::uint8, shape, {shape[1] * shape[2], shape[2], 1}}, nullptr);
}

TEST(Coordinates, AVolumeThatChangesAfterTheCountIsAnError) {
  std::vector<std::uint8_t> bytes(20 * 20 * 20, 255);
  std::fill_n(bytes.begin(), 4000, std::uint8_t{3});
  const CoordinatesJob job({{"a", changeable(bytes, {20, 20, 20})}}, {0, 0, 0}, 9);
  EXPECT_EQ(job.rows(0, job.size()).size(), 4 * 4000);
  for (const std::uint8_t value : {std::uint8_t{7}, std::uint8_t{255}}) {  // a class that did not occur; no class
    bytes[17] = value;
    EXPECT_THROW(static_cast<void>(job.rows(0, job.size())), Error);
  }
  bytes[17] = 3;
  EXPECT_EQ(job.rows(0, job.size()).size(), 4 * 4000);
}

TEST(Coordinates, PiecesAreTheWhole) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const CoordinatesJob job({{"a", scene.options.partitions}}, {0, 0, 0}, 9);
  const std::vector<std::int32_t> whole = values(job.rows(0, job.size()));
  std::vector<std::int32_t> joined;
  const std::string path = folder.file("c.h5");
  for (std::int64_t begin = 0; begin < job.size(); begin += 1000) {
    const std::int64_t end = std::min(begin + 1000, job.size());
    const Tensor<std::int32_t, 2> piece = job.rows(begin, end);
    joined.insert(joined.end(), piece.span().begin(), piece.span().end());
  }
  write_coordinates(path, "a", job.rows(0, job.size()));
  EXPECT_EQ(joined, whole);

  const CoordinatesFile read(path);
  EXPECT_EQ(read.size(), job.size());
  EXPECT_EQ(read.volumes(), std::vector<std::string>{"a"});
  EXPECT_EQ(read.read(5, 6).front(), (Centre{whole[20], {whole[21], whole[22], whole[23]}}));
}

TEST(Coordinates, RefuseWhatCannotWork) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const auto refuse = [&](const std::vector<NamedPartitions>& volumes, const Vec3& margin, ErrorCode code,
                          const std::vector<std::string>& parts) {
    expect_error([&] { const CoordinatesJob job(volumes, margin, 0); }, code, parts);
  };
  refuse({}, {0, 0, 0}, ErrorCode::invalid_argument, {"no partition volume"});
  refuse({{"a", scene.options.partitions}, {"a", scene.options.partitions}}, {0, 0, 0}, ErrorCode::invalid_argument,
         {"'a'", "twice"});
  refuse({{"a", scene.options.partitions}}, {10, 0, 0}, ErrorCode::invalid_argument, {"(10, 0, 0)", "(20, 22, 24)"});
  refuse({{"a", scene.options.labels}}, {0, 0, 0}, ErrorCode::invalid_file, {"int32", "uint8"});
  write_dataset<std::uint8_t>(folder.file("none.h5"), "d", {2, 2, 2}, std::vector<std::uint8_t>(8, 255));
  refuse({{"a", folder.file("none.h5:d")}}, {0, 0, 0}, ErrorCode::invalid_argument, {"none.h5:d", "255"});
  expect_error([&] { const CoordinatesFile file(folder.file("none.h5")); }, ErrorCode::invalid_file,
               {"none.h5", "coordinates file"});
}

}  // namespace
}  // namespace floodtide::data
