// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/crc32c.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace floodtide {
namespace {

/// Return the CRC-32C, computed bit by bit from the polynomial.
std::uint32_t slow_crc32c(std::string_view bytes, std::uint32_t before = 0) {
  std::uint32_t crc = ~before;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

std::string random_bytes(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST(Crc32c, EqualsThePublishedValues) {  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
}

TEST(Crc32c, EqualsTheSlowOneForAnySizeAndStart) {
  for (const std::size_t size : {0, 1, 7, 8, 9, 255, 1023, 1024, 1280, 1535, 3071, 3072, 3073, 6143, 6144, 9300, 20'000}) {
    const std::string bytes = random_bytes(size + 8);
    for (std::size_t start = 0; start < 8; start += 3) {
      const std::string_view part = std::string_view(bytes).substr(start, size);
      EXPECT_EQ(crc32c(part), slow_crc32c(part)) << size << " bytes from " << start;
    }
  }
}

TEST(Crc32c, GoesOnAfterAFirstPart) {
  const std::string bytes = random_bytes(10'000);
  for (const std::size_t first : {0, 1, 3072, 4000, 10'000}) {
    const std::string_view all = bytes;
    EXPECT_EQ(crc32c(all.substr(first), crc32c(all.substr(0, first))), slow_crc32c(all)) << first;
  }
}

}  // namespace
}  // namespace floodtide
