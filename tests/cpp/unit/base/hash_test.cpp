// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "floodtide/base/parallel.hpp"

namespace floodtide {
namespace {

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

TEST(Hash, EveryBitCounts) {
  std::vector<std::byte> bytes = bytes_of(300);  // several whole blocks and a remainder
  const std::uint64_t before = hash_of(bytes);
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    const auto bit = std::byte{1} << (i % 8);
    bytes[i / 8] ^= bit;
    EXPECT_NE(hash_of(bytes), before) << i;
    bytes[i / 8] ^= bit;
  }
  EXPECT_EQ(hash_of(bytes), before);
}

TEST(Hash, LengthOrderAndStartCount) {
  const std::vector<std::byte> bytes = bytes_of(300);
  EXPECT_NE(hash_of(std::span(bytes).first(299)), hash_of(bytes));
  EXPECT_NE(hash_of(std::vector<std::byte>(64)), hash_of(std::vector<std::byte>(128)));
  EXPECT_NE(hash_of(bytes, 1), hash_of(bytes));
  std::vector<std::byte> swapped = bytes_of(1 << 20);  // several pieces
  const std::uint64_t before = hash_of(swapped);
  std::swap_ranges(swapped.begin(), swapped.begin() + (1 << 18), swapped.begin() + (1 << 18));
  EXPECT_NE(hash_of(swapped), before);
}

TEST(Hash, DoesNotDependOnThreads) {
  const std::vector<std::byte> bytes = bytes_of((1 << 20) + 13);
  const int before = num_threads();
  set_num_threads(1);
  const std::uint64_t alone = hash_of(bytes);
  set_num_threads(3);
  EXPECT_EQ(hash_of(bytes), alone);
  set_num_threads(before);
}

}  // namespace
}  // namespace floodtide
