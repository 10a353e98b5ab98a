// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

TEST(AlignedBuffer, IsAlignedZeroedAndCounted) {
  const std::int64_t before = allocation_count();
  for (const std::int64_t count : {1, 63, 64, 65, 3'000'000}) {
    AlignedBuffer<float> buffer(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kAlignment, 0U);
    for (const float value : buffer.span()) ASSERT_EQ(value, 0.0F);
  }
  EXPECT_EQ(allocation_count() - before, 5);
}

TEST(AlignedBuffer, MovesWithoutCopying) {
  AlignedBuffer<int> a(3);
  const int* data = a.data();
  a[1] = 7;
  AlignedBuffer<int> b(std::move(a));
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b[1], 7);
}

TEST(AlignedBuffer, RefusesSizesThatOverflow) {
  EXPECT_THROW(AlignedBuffer<double>(INT64_MAX / 2), Error);
  EXPECT_THROW(AlignedBuffer<double>(-1), Error);
}

TEST(Memory, PeakIsAtLeastTheResidentSize) { EXPECT_GE(peak_resident_bytes(), resident_bytes()); }

TEST(Workspace, GrowsAndIsKept) {
  Workspace workspace;
  float* const small = workspace.floats(10);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % kAlignment, 0U);
  float* const large = workspace.floats(100'000);
  large[99'999] = 1;
  const std::int64_t before = allocation_count();
  EXPECT_EQ(workspace.floats(50'000), large);
  EXPECT_EQ(workspace.floats(100'000), large);
  EXPECT_EQ(allocation_count(), before);
}

}  // namespace
}  // namespace floodtide
