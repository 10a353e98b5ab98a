// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/tensorflow_checkpoint.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "floodtide/base/crc32c.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string block(const std::string& contents, char compression = 0) {
  const std::string checked = contents + compression;
  return checked + bytes_of(masked_crc32c(checked));
}

/// A checkpoint with the arrays ab/x = {1, 2} and ab/y = {3}, written byte by byte from the description of the format. All
/// lengths are below 128, so that each needs one byte.
class TensorflowCheckpointFile : public testing::Test {
 protected:
  TensorflowCheckpointFile() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("bundle-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
    prefix_ = (folder_ / "model").string();
    write(0);
  }
  ~TensorflowCheckpointFile() override { std::filesystem::remove_all(folder_); }

  static std::string entry(char shared, const std::string& rest, const std::string& value) {
    return std::string{shared, static_cast<char>(rest.size()), static_cast<char>(value.size())} + rest + value;
  }
  static std::string tensor(char extent, char offset, const std::string& data) {
    const std::string shape{0x12, 0x02, 0x08, extent};
    return std::string{0x08, 0x01, 0x12, static_cast<char>(shape.size())} + shape +
           std::string{0x20, offset, 0x28, static_cast<char>(data.size()), 0x35} + bytes_of(masked_crc32c(data));
  }

  void write(char compression) {
    const std::string x = bytes_of(1.0F) + bytes_of(2.0F), y = bytes_of(3.0F);
    std::ofstream(prefix_ + ".data-00000-of-00001", std::ios::binary) << x + y;
    const std::string restarts = bytes_of(std::uint32_t{0}) + bytes_of(std::uint32_t{1});
    const std::string contents =
        entry(0, "", {0x08, 0x01}) + entry(0, "ab/x", tensor(2, 0, x)) + entry(3, "y", tensor(1, 8, y)) + restarts;
    std::string file = block(contents, compression);
    const auto data_size = static_cast<char>(contents.size());
    const std::string index = entry(0, "b", {0, data_size}) + restarts;
    const auto index_at = static_cast<char>(file.size());
    ASSERT_LT(file.size(), 128U);
    file += block(index);
    std::string footer{0, 0, index_at, static_cast<char>(index.size())};
    footer.resize(40, '\0');
    file += footer + bytes_of(std::uint64_t{0xDB4775248B80FB57ULL});
    std::ofstream(prefix_ + ".index", std::ios::binary) << file;
  }

  /// Return the code of the error that is thrown when the whole checkpoint is read.
  ErrorCode failure() const {
    try {
      const TensorflowCheckpoint checkpoint(prefix_);
      for (const auto& one : checkpoint.entries()) static_cast<void>(checkpoint.read(one));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  }

  static std::string contents_of(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  std::filesystem::path folder_;
  std::string prefix_;
};

TEST_F(TensorflowCheckpointFile, ListsAndReadsItsArrays) {
  const TensorflowCheckpoint checkpoint(prefix_);
  ASSERT_EQ(checkpoint.entries().size(), 2U);
  EXPECT_EQ(checkpoint.entries()[0].name, "ab/x");
  EXPECT_EQ(checkpoint.entries()[1].name, "ab/y");
  EXPECT_EQ(checkpoint.entries()[0].shape, std::vector<std::int64_t>{2});
  EXPECT_EQ(checkpoint.read(checkpoint.entries()[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(checkpoint.read(checkpoint.entries()[1]), std::vector<float>{3});
}

TEST_F(TensorflowCheckpointFile, RefusesCompressedIndices) {
  write(1);
  EXPECT_EQ(failure(), ErrorCode::unsupported);
}

TEST_F(TensorflowCheckpointFile, RefusesMissingFiles) {
  std::filesystem::remove(prefix_ + ".data-00000-of-00001");
  EXPECT_EQ(failure(), ErrorCode::invalid_file);
  std::filesystem::remove(prefix_ + ".index");
  EXPECT_EQ(failure(), ErrorCode::invalid_file);
}

TEST_F(TensorflowCheckpointFile, RefusesPipesWithoutWaitingForTheirWriters) {
  for (const char* suffix : {".data-00000-of-00001", ".index"}) {
    std::filesystem::remove(prefix_ + suffix);
    ASSERT_EQ(::mkfifo((prefix_ + suffix).c_str(), 0600), 0);
    EXPECT_EQ(failure(), ErrorCode::invalid_file) << suffix;
  }
}

TEST_F(TensorflowCheckpointFile, NoticesEveryTruncation) {
  for (const char* suffix : {".index", ".data-00000-of-00001"}) {
    const std::string whole = contents_of(prefix_ + suffix);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      std::ofstream(prefix_ + suffix, std::ios::binary) << whole.substr(0, size);
      EXPECT_EQ(failure(), ErrorCode::invalid_file) << suffix << " cut to " << size << " bytes";
    }
    std::ofstream(prefix_ + suffix, std::ios::binary) << whole;
  }
}

TEST_F(TensorflowCheckpointFile, NoticesEveryChangedByteThatIsRead) {
  for (const char* suffix : {".index", ".data-00000-of-00001"}) {
    const std::string whole = contents_of(prefix_ + suffix);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      // The padding of the footer, and the unused handle of the meta index, may have any content.
      const std::size_t footer = whole.size() - 48;
      if (std::string_view(suffix) == ".index" && at >= footer && at < whole.size() - 8 &&
          (at < footer + 2 || at >= footer + 4))
        continue;
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 0x21);
      std::ofstream(prefix_ + suffix, std::ios::binary) << changed;
      EXPECT_EQ(failure(), ErrorCode::invalid_file) << suffix << ", byte " << at;
    }
    std::ofstream(prefix_ + suffix, std::ios::binary) << whole;
  }
}

}  // namespace
}  // namespace floodtide::data
