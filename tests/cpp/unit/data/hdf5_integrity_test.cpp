// SPDX-License-Identifier: Apache-2.0
// Tests with damaged files, and with files that are not HDF5 files.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <random>

#include "floodtide/data/hdf5.hpp"
#include "floodtide/tensor/view.hpp"
#include "unit/data/files.hpp"

namespace floodtide::data {
namespace {

/// Write a file with all kinds of objects that floodtide writes: chunked, compressed, small and empty datasets, written whole
/// and in blocks, and numbers and texts as attributes. There are more attributes than fit into an object header of the old
/// format.
void write_everything(const std::string& path) {
  Hdf5File file = Hdf5File::create(path);
  std::vector<float> weights(3000);
  std::iota(weights.begin(), weights.end(), 0.5F);
  const std::vector<std::int64_t> shape{30, 100};
  file.write_array<float>("network/weights", shape, weights);
  const std::vector<std::int64_t> small{4}, none{0, 3};
  file.write_array<float>("network/biases", small, std::vector<float>{1, 2, 3, 4});
  file.write_array<std::int64_t>("overlaps/id", none, std::vector<std::int64_t>{});
  const std::vector<std::int64_t> cube{20, 20, 20}, chunks{8, 8, 8};
  file.create_dataset("ids", ElementType::uint16, cube, {.chunks = chunks, .gzip = 4});
  std::vector<std::uint16_t> slab(400);
  for (std::int64_t z = 0; z < 20; ++z) {
    std::iota(slab.begin(), slab.end(), static_cast<std::uint16_t>(7 * z));
    file.write_block<std::uint16_t>("ids", std::vector<std::int64_t>{z, 0, 0}, std::vector<std::int64_t>{1, 20, 20}, slab);
  }
  file.write_attribute("/", "format", std::string("floodtide test"));
  file.write_attribute("/", "configuration", std::string(3000, 'c'));
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) file.write_attribute("/", name, std::int64_t{name[0]});
  file.write_attribute("ids", "scale", 0.25);
  file.write_attribute<std::int64_t>("ids", "boxes", std::vector<std::int64_t>{10'000}, std::vector<std::int64_t>(10'000, 5));
  file.create_group("counters");
  file.write_attribute("counters", "calls", std::int64_t{12});
  file.commit();
}

/// Return the whole content of the file as text.
std::string everything(const std::string& path) {
  const Hdf5File file = Hdf5File::open(path);
  std::string text = str_cat(Show{file.read_array<float>("network/weights").shape});
  const auto add = [&](const auto& array) {
    text += str_cat(Show{array.shape});
    for (const auto value : array.values) text += str_cat(' ', +value);
  };
  add(file.read_array<float>("network/weights"));
  add(file.read_array<float>("network/biases"));
  add(file.read_array<std::int64_t>("overlaps/id"));
  add(file.read_array<std::uint16_t>("ids"));
  text += file.read_text_attribute("/", "format") + file.read_text_attribute("/", "configuration");
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) text += str_cat(' ', file.read_integer("/", name));
  add(file.read_attribute<double>("ids", "scale"));
  add(file.read_attribute<std::int64_t>("ids", "boxes"));
  return text + str_cat(file.read_integer("counters", "calls"));
}

TEST(Hdf5Integrity, EveryFlippedBitIsNoticedOrChangesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_everything(path);
  const std::string expected = everything(path);
  std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path));
  std::mt19937_64 random(20261122);
  int refused = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const auto at = static_cast<std::streamoff>(random() % static_cast<std::uint64_t>(size));
    const auto bit = static_cast<char>(1 << random() % 8);
    const auto flip = [&] {
      bytes.seekg(at);
      const auto byte = static_cast<char>(bytes.get() ^ bit);
      bytes.seekp(at);
      bytes.put(byte).flush();
    };
    flip();
    try {
      ASSERT_EQ(everything(path), expected) << "byte " << at << ", bit " << int{bit};
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.code(), ErrorCode::invalid_file) << error.what();
      ASSERT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
    flip();
  }
  EXPECT_EQ(everything(path), expected);
  EXPECT_GT(refused, 800);  // some bytes do not matter, such as gaps between chunks and times
}

TEST(Hdf5Integrity, EveryDatasetHasAChecksum) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_everything(path);
  const Hdf5File file = Hdf5File::open(path);
  for (const std::string& dataset : file.datasets()) EXPECT_TRUE(file.has_checksum(dataset)) << dataset;
}

TEST(Hdf5Integrity, SaysThatTheChecksumIsWrong) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  std::vector<float> values(5000, 1.5F);
  write_dataset<float>(path, "d", {5000}, values);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path)) - 1000);
    file.put('\x01');
  }
  expect_error([&] { static_cast<void>(Hdf5File::open(path).read_array<float>("d")); }, ErrorCode::invalid_file,
               {path + ":d", "damaged", "checksum", "another copy"});
}

TEST(Hdf5Integrity, RefusesPipesSocketsAndDevices) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe.h5");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error([&] { static_cast<void>(Hdf5File::open(pipe)); }, ErrorCode::invalid_file, {pipe, "a pipe", "HDF5"});
  expect_error([] { static_cast<void>(Hdf5File::open("/dev/zero")); }, ErrorCode::invalid_file, {"/dev/zero", "a device"});
  const std::string socket_path = folder.file("socket.h5");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(socket_path.size(), sizeof(address.sun_path));
  std::strcpy(address.sun_path, socket_path.c_str());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  expect_error([&] { static_cast<void>(Hdf5File::open(socket_path)); }, ErrorCode::invalid_file, {socket_path});
  ::close(listener);
}

TEST(Hdf5Integrity, SaysHowMuchIsMissingOfATruncatedFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_everything(path);
  const auto whole = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, whole - 1);
  expect_error([&] { static_cast<void>(Hdf5File::open(path)); }, ErrorCode::invalid_file,
               {path, std::to_string(whole - 1), std::to_string(whole), "truncated"});
}

TEST(Hdf5Integrity, RefusesVersionsOfTheFutureByTheFirstBytes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  write_everything(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);
    file.put('\x09');
  }
  expect_error([&] { static_cast<void>(Hdf5File::open(path)); }, ErrorCode::invalid_file, {path, "version 9"});
}

TEST(Hdf5Integrity, RefusesMoreValuesThanTheFileCanHold) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  {
    Hdf5File file = Hdf5File::create(path);
    const std::vector<std::int64_t> shape{std::int64_t{1} << 20, std::int64_t{1} << 18, 1 << 10}, chunks{64, 64, 64};
    file.create_dataset("raw", ElementType::uint8, shape, {.chunks = chunks});
    file.commit();
  }
  expect_error([&] { static_cast<void>(Hdf5File::open(path).info("raw")); }, ErrorCode::invalid_file,
               {path + ":raw", "281474976710656 bytes", "never filled"});
}

}  // namespace
}  // namespace floodtide::data
