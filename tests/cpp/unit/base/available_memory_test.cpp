// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "floodtide/base/available_memory.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"

namespace floodtide {
namespace {

namespace fs = std::filesystem;

class AvailableMemory : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("memory_") + test->name());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::optional<std::size_t> of(const std::map<std::string, std::string>& files) {
    for (const auto& [name, text] : files) {
      fs::create_directories((folder_ / name).parent_path());
      std::ofstream(folder_ / name) << text;
    }
    return available_bytes((folder_ / "proc").string(), (folder_ / "groups").string());
  }

 private:
  fs::path folder_;
};

const std::string kFree = "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 4000 kB\nSwapTotal: 5 kB\nSwapFree: 96 kB\n";

TEST_F(AvailableMemory, IsTheHostsWithoutGroups) { EXPECT_EQ(of({{"proc/meminfo", kFree}}), 4096U * 1024U); }

TEST_F(AvailableMemory, IsWhatTheTightestGroupLeavesWithItsCaches) {
  EXPECT_EQ(of({{"proc/meminfo", kFree},
                {"proc/self/cgroup", "0::/job/step\n"},
                {"groups/job/step/memory.max", "max\n"},
                {"groups/job/step/memory.current", "500\n"},
                {"groups/job/memory.max", "3000\n"},
                {"groups/job/memory.current", "2500\n"},
                {"groups/job/memory.stat", "anon 1000\ninactive_file 300\nactive_file 200\ninactive_anon 7\n"}}),
            1000U);
}

TEST_F(AvailableMemory, IsKnownInVersionOneGroups) {
  EXPECT_EQ(of({{"proc/meminfo", kFree},
                {"proc/self/cgroup", "4:cpu,cpuacct:/job\n3:memory:/job\n"},
                {"groups/memory/job/memory.limit_in_bytes", "2000\n"},
                {"groups/memory/job/memory.usage_in_bytes", "2500\n"}}),
            0U);
}

TEST_F(AvailableMemory, IsUnknownWithoutAnySource) {
  if (available_bytes("/nowhere", "/nowhere")) GTEST_SKIP() << "this process has a limit of address space";
  EXPECT_EQ(of({}), std::nullopt);
}

TEST(Memory, WhatCannotFitIsRefusedBeforeItIsAllocated) {
  if (!available_bytes()) GTEST_SKIP() << "the system does not tell";
  try {
    static_cast<void>(AlignedBuffer<float>(std::int64_t{1} << 50));
    FAIL() << "4 PiB were allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_TRUE(std::string(error.what()).starts_with("out of memory: an array needs 4.0 PiB, ")) << error.what();
  }
}

TEST(Memory, SizesAreShownWithTheirUnit) {
  EXPECT_EQ(describe_bytes(17), "17 bytes");
  EXPECT_EQ(describe_bytes(1536), "1.5 KiB");
  EXPECT_EQ(describe_bytes(0x1p63), "8.0 EiB");
}

}  // namespace
}  // namespace floodtide
