// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/hdf5.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <bit>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "unit/data/files.hpp"

namespace floodtide::data {
namespace {

std::vector<std::int32_t> counting(std::size_t count) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), -5);
  return values;
}

TEST(Hdf5File, ReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  const std::vector<std::int32_t> values = counting(24);
  write_dataset<std::int32_t>(path, "group/inner/values", {2, 3, 4}, values, {.chunks = {1, 2, 3}, .gzip = 4});

  const Hdf5File file = Hdf5File::open(path);
  const Array<std::int32_t> read = file.read_array<std::int32_t>("group/inner/values");
  EXPECT_EQ(read.shape, (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(read.values, values);
  EXPECT_EQ(file.info("group/inner/values").chunks, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(file.list("group"), std::vector<std::string>{"inner"});
  EXPECT_EQ(file.datasets(), std::vector<std::string>{"group/inner/values"});
  EXPECT_TRUE(file.exists("group/inner"));
  EXPECT_FALSE(file.exists("group/other/values"));
}

TEST(Hdf5File, WritesPiecewiseWithFill) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  {
    Hdf5File file = Hdf5File::create(path);
    const std::vector<std::int64_t> shape{4, 4};
    file.create_dataset("d", ElementType::uint8, shape, {.chunks = {2, 2}, .gzip = 1, .fill = 255});
    const std::vector<std::int64_t> start{1, 1};
    const std::vector<std::int64_t> count{2, 1};
    const std::vector<std::uint8_t> block{7, 8};
    file.write_block<std::uint8_t>("d", start, count, block);
    file.commit();
  }
  const std::vector<std::uint8_t> expected{255, 255, 255, 255, 255, 7, 255, 255, 255, 8, 255, 255, 255, 255, 255, 255};
  EXPECT_EQ(Hdf5File::open(path).read_array<std::uint8_t>("d").values, expected);
}

TEST(Hdf5File, StoresChunksThatWereFilteredBefore) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  for (const bool noise : {false, true}) {  // noise hardly shrinks
    std::vector<float> values(2 * 2 * 3 * 50);
    for (float& value : values) value = noise ? std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x7F800000U)) : 0.5F;
    const std::vector<std::int64_t> shape{2, 2, 3, 50}, start{1, 0, 0, 0}, count{1, 2, 3, 50};
    const DatasetOptions options{.chunks = count, .gzip = 4};
    const std::span<const float> second = std::span<const float>(values).subspan(2 * 3 * 50);
    for (const bool before : {false, true}) {
      const std::string path = folder.file(before ? "before.h5" : "after.h5");
      Hdf5File file = Hdf5File::create(path);
      file.create_dataset("d", ElementType::float32, shape, options);
      if (before) {
        const auto [skipped, filtered] = filtered_chunk(second, options);
        EXPECT_LT(filtered.size(), noise ? 1300U : 200U);
        file.write_chunk("d", start, skipped, filtered);
      } else {
        file.write_block<float>("d", start, count, second);
      }
      file.commit();
      std::vector<float> expected(values.size(), 0.0F);
      std::ranges::copy(second, expected.begin() + 2 * 3 * 50);
      EXPECT_EQ(Hdf5File::open(path).read_array<float>("d").values, expected);
    }
    EXPECT_EQ(std::filesystem::file_size(folder.file("before.h5")), std::filesystem::file_size(folder.file("after.h5")));
  }
}

TEST(Hdf5File, AttributesKeepTypeShapeAndText) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  const std::string long_text(100000, 'x');
  {
    Hdf5File file = Hdf5File::create(path);
    file.create_group("g");
    file.write_attribute("/", "count", std::int64_t{-3});
    file.write_attribute("g", "rate", 0.25);
    file.write_attribute("g", "text", long_text);
    const std::vector<std::int64_t> shape{1, 2, 3};
    const std::vector<std::int64_t> values{1, 2, 3, 4, 5, 6};
    file.write_attribute<std::int64_t>("g", "boxes", shape, values);
    file.commit();
  }
  const Hdf5File file = Hdf5File::open(path);
  EXPECT_EQ(file.read_attribute<std::int64_t>("/", "count").values, std::vector<std::int64_t>{-3});
  EXPECT_EQ(file.read_attribute<double>("g", "rate").values, std::vector<double>{0.25});
  EXPECT_EQ(file.read_text_attribute("g", "text"), long_text);
  EXPECT_EQ(file.read_attribute<std::int64_t>("g", "boxes").shape, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_TRUE(file.has_attribute("g", "rate"));
  EXPECT_FALSE(file.has_attribute("g", "other"));
  expect_error([&] { static_cast<void>(file.read_attribute<std::int64_t>("g", "rate")); }, ErrorCode::invalid_file,
               {path, "rate", "float64", "int64"});
  expect_error([&] { static_cast<void>(file.read_attribute<double>("g", "other")); }, ErrorCode::invalid_file, {path, "other"});
}

TEST(Hdf5File, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  {
    Hdf5File file = Hdf5File::create(folder.file("a.h5"));
    file.create_group("g");
    EXPECT_EQ(folder.entries(), 1U);
  }
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(Hdf5File, KeepsThePreviousFileUntilCommit) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_dataset<float>(path, "d", {1}, {1.0F});
  {
    Hdf5File file = Hdf5File::create(path);
    file.create_group("g");
  }
  EXPECT_EQ(Hdf5File::open(path).read_array<float>("d").values, std::vector<float>{1.0F});
}

TEST(Hdf5File, NamesAMissingFileAndAFolder) {
  const TemporaryFolder folder;
  expect_error([&] { static_cast<void>(Hdf5File::open(folder.file("no.h5"))); }, ErrorCode::invalid_file,
               {"no.h5", "no such file"});
  expect_error([&] { static_cast<void>(Hdf5File::open(folder.file(""))); }, ErrorCode::invalid_file, {"folder"});
}

TEST(Hdf5File, RefusesEmptyForeignAndTruncatedFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_dataset<std::int32_t>(path, "d", {1000}, counting(1000));
  const auto whole = std::filesystem::file_size(path);
  for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{7}, std::uintmax_t{100}, whole - 1}) {
    std::filesystem::resize_file(path, size);
    expect_error([&] { static_cast<void>(Hdf5File::open(path).read_array<std::int32_t>("d")); }, ErrorCode::invalid_file,
                 {path});
  }
  std::ofstream(path) << "not an HDF5 file at all, but long enough to hold a signature";
  expect_error([&] { static_cast<void>(Hdf5File::open(path)); }, ErrorCode::invalid_file, {path, "signature"});
}

TEST(Hdf5File, RefusesCorruptChunks) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_dataset<std::int32_t>(path, "d", {4096}, counting(4096), {.chunks = {4096}, .gzip = 6});
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path)) - 400);
    file << std::string(300, '\x5a');
  }
  expect_error([&] { static_cast<void>(Hdf5File::open(path).read_array<std::int32_t>("d")); }, ErrorCode::invalid_file, {path});
}

TEST(Hdf5File, ListsTheDatasetsWhenOneIsMissing) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_dataset<float>(path, "group/raw", {1}, {1.0F});
  expect_error([&] { static_cast<void>(Hdf5File::open(path).info("stack")); }, ErrorCode::invalid_file,
               {path, "'stack'", "group/raw"});
}

TEST(Hdf5File, RefusesAnotherElementTypeAndBlocksOutside) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_dataset<float>(path, "d", {2, 2}, {1, 2, 3, 4});
  const Hdf5File file = Hdf5File::open(path);
  expect_error([&] { static_cast<void>(file.read_array<double>("d")); }, ErrorCode::invalid_file, {"float32", "float64"});
  std::vector<float> out(2);
  const std::vector<std::int64_t> start{1, 1};
  const std::vector<std::int64_t> count{1, 2};
  expect_error([&] { file.read_block<float>("d", start, count, out); }, ErrorCode::out_of_range, {"(1, 1)", "(2, 2)"});
}

TEST(Hdf5File, ReportsFoldersThatCannotBeWritten) {
  const TemporaryFolder folder;
  expect_error([&] { static_cast<void>(Hdf5File::create(folder.file("none/a.h5"))); }, ErrorCode::io,
               {"none/a.h5", "No such file or directory"});
}

// With a limit on the file size, the same calls fail as with a full disk. This runs in a child process, because the limit
// cannot be removed.
[[noreturn]] void write_beyond_the_limit(const TemporaryFolder& folder) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 16, 1 << 16};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::vector<float> values(1 << 20, 2.0F);
  const Error error = error_of([&] { write_dataset<float>(folder.file("a.h5"), "d", {1 << 20}, values); });
  const std::string message = error.what();
  const bool named = message.find("a.h5") != std::string::npos && message.find("File too large") != std::string::npos;
  std::exit(error.code() == ErrorCode::io && named && folder.entries() == 1 ? 0 : 1);
}

TEST(Hdf5FileDeathTest, ReportsAFullDiskAndRemovesWhatItBegan) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_dataset<float>(path, "d", {1}, {1.0F});
  EXPECT_EXIT(write_beyond_the_limit(folder), ::testing::ExitedWithCode(0), "^$");
  EXPECT_EQ(Hdf5File::open(path).read_array<float>("d").values, std::vector<float>{1.0F});
}

TEST(Hdf5File, ServesThreads) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  const std::vector<std::int32_t> values = counting(4096);
  write_dataset<std::int32_t>(path, "d", {4096}, values, {.chunks = {64}, .gzip = 1});
  const Hdf5File file = Hdf5File::open(path, 1024);
  std::vector<int> mismatches(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < mismatches.size(); ++t) {
    threads.emplace_back([&file, &values, &mismatches, t] {
      for (std::int64_t begin = static_cast<std::int64_t>(t); begin + 100 <= 4096; begin += 97) {
        std::vector<std::int32_t> out(100);
        const std::vector<std::int64_t> start{begin};
        const std::vector<std::int64_t> count{100};
        file.read_block<std::int32_t>("d", start, count, out);
        if (!std::equal(out.begin(), out.end(), values.begin() + begin)) ++mismatches[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mismatches, (std::vector<int>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace floodtide::data
