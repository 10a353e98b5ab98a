// SPDX-License-Identifier: Apache-2.0
// Tests of what a result may replace in an HDF5 file, and what it must keep.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "floodtide/data/hdf5.hpp"
#include "unit/data/files.hpp"

namespace floodtide::data {
namespace {

const Hdf5Result kResult{.command = "floodtide test", .objects = {"group/ids", "origins"}};

void write_result(const std::string& path, float value, const Hdf5Result& result = kResult) {
  Hdf5File file = Hdf5File::create(path, result);
  file.write_array<float>("group/ids", std::vector<std::int64_t>{2}, std::vector<float>{value, value});
  file.write_array<float>("origins/id", std::vector<std::int64_t>{1}, std::vector<float>{value});
  file.commit();
}

float first(const std::string& path, const std::string& dataset) {
  return Hdf5File::open(path).read_array<float>(dataset).values.front();
}

TEST(Hdf5Output, JoinsTheDatasetsOfOthersAndReplacesItsOlderSelf) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  {
    Hdf5File file = Hdf5File::create(path);
    file.write_array<float>("group/raw", std::vector<std::int64_t>{1}, std::vector<float>{7});
    file.write_attribute("/", "about", std::string("a microscope"));
    file.commit();
  }
  for (const float value : {1.0F, 2.0F}) {
    write_result(path, value);
    EXPECT_EQ(first(path, "group/raw"), 7);
    EXPECT_EQ(Hdf5File::open(path).read_text_attribute("/", "about"), "a microscope");
    EXPECT_EQ(first(path, "group/ids"), value);
    EXPECT_EQ(first(path, "origins/id"), value);
  }
  EXPECT_EQ(folder.entries(), 1U);
}

/// Writes a result several times to a file with another dataset, and returns by how many bytes the last write enlarged the
/// file.
std::int64_t growth(const std::string& path, const std::string& note) {
  write_dataset<float>(path, "other", {1}, {7});
  const Hdf5Result result{.command = "floodtide test", .objects = {"large"}};
  std::vector<std::uintmax_t> sizes;
  for (int i = 0; i < 4; ++i) {
    Hdf5File file = Hdf5File::create(path, result);
    file.write_array<float>("large", std::vector<std::int64_t>{100000}, std::vector<float>(100000, 1.0F));
    if (!note.empty()) file.write_attribute("large", "note", note);
    file.commit();
    sizes.push_back(std::filesystem::file_size(path));
  }
  EXPECT_EQ(sizes[2] - sizes[1], sizes[3] - sizes[2]);
  return static_cast<std::int64_t>(sizes[3] - sizes[2]);
}

TEST(Hdf5Output, DoesNotGrowWithEachReplacement) {
  const TemporaryFolder folder;
  EXPECT_EQ(growth(folder.file("a.h5"), ""), 0);
}

// HDF5 1.10 stores the texts of attributes in blocks of at least 4096 bytes, which it never frees.
TEST(Hdf5Output, GrowsByTheTextsThatAreReplaced) {
  const TemporaryFolder folder;
  constexpr std::int64_t kBlock = 4096;
  EXPECT_LE(growth(folder.file("short.h5"), "a note"), kBlock);
  EXPECT_LE(growth(folder.file("long.h5"), std::string(3 * kBlock, 'a')), 4 * kBlock);
}

TEST(Hdf5Output, RefusesToReplaceWhatItDidNotWrite) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& word, const Hdf5Result& result = kResult) {
    const std::string path = folder.file(name);
    std::ifstream before_stream(path, std::ios::binary);
    const std::string before{std::istreambuf_iterator<char>(before_stream), {}};
    expect_error([&] { Hdf5File::check_output(path, result); }, ErrorCode::invalid_argument, {name, word});
    expect_error([&] { write_result(path, 1, result); }, ErrorCode::invalid_argument, {name, word});
    std::ifstream after_stream(path, std::ios::binary);
    EXPECT_EQ((std::string{std::istreambuf_iterator<char>(after_stream), {}}), before);
  };
  write_dataset<float>(folder.file("truth.h5"), "group/ids", {1}, {7});
  refused("truth.h5", "no attribute written_by says that floodtide test wrote it");
  write_result(folder.file("other.h5"), 3, {.command = "floodtide other", .objects = kResult.objects});
  refused("other.h5", "no attribute written_by says that floodtide test wrote it");
  write_dataset<float>(folder.file("blocked.h5"), "group", {1}, {7});
  refused("blocked.h5", "is a dataset there");
  write_dataset<float>(folder.file("half.h5"), "origins/id", {1}, {7});
  refused("half.h5", "origins");
  std::ofstream(folder.file("notes.txt")) << "these are notes of a person, and no HDF5 file at all";
  refused("notes.txt", "cannot be read as an HDF5 file");
}

TEST(Hdf5Output, OfAFormatHasTheFileForItself) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  const Hdf5Result result{.command = "floodtide test", .objects = {"centres"}, .format = "test format"};
  const auto write = [&](const Hdf5Result& what, const std::string& dataset) {
    Hdf5File file = Hdf5File::create(path, what);
    file.write_attribute("/", "format", std::string("test format"));
    file.write_array<float>(dataset, std::vector<std::int64_t>{1}, std::vector<float>{1});
    file.commit();
  };
  write(result, "centres");
  write(result, "centres");
  write({.command = "floodtide test", .objects = {"centres", "more"}, .format = "test format"}, "more");
  expect_error([&] { write(result, "centres"); }, ErrorCode::invalid_argument, {"'more', which would be lost"});
  write_dataset<float>(path, "centres", {1}, {7});
  expect_error([&] { write(result, "centres"); }, ErrorCode::invalid_argument, {"not a file of format 'test format'"});
}

TEST(Hdf5Output, DoesNotJoinAFileOfAFormat) {
  const TemporaryFolder folder;
  const std::string path = folder.file("step-1.h5");
  {
    Hdf5File file = Hdf5File::create(path);
    file.write_attribute("/", "format", std::string("floodtide checkpoint"));
    file.commit();
  }
  expect_error([&] { write_result(path, 1); }, ErrorCode::invalid_argument,
               {"step-1.h5: is a file of format 'floodtide checkpoint'"});
}

TEST(Hdf5Output, TakesAnEmptyFileForNone) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("a.h5")).flush();
  write_result(folder.file("a.h5"), 5);
  EXPECT_EQ(first(folder.file("a.h5"), "group/ids"), 5);
}

}  // namespace
}  // namespace floodtide::data
