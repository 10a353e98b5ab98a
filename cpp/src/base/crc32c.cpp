// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/crc32c.hpp"

#include <array>
#include <cstring>

namespace floodtide {
namespace {

#if !defined(__SSE4_2__)
constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}();
#endif

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) noexcept {
  const char* at = bytes.data();
  std::size_t left = bytes.size();
#if defined(__SSE4_2__)  // part of x86-64-v2, the baseline: 8 bytes per instruction
  std::uint64_t crc = ~before;
  for (; left >= sizeof(std::uint64_t); at += sizeof(std::uint64_t), left -= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (; left > 0; ++at, --left) rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(*at));
  return ~rest;
#else
  std::uint32_t crc = ~before;
  for (; left > 0; ++at, --left) crc = kTable[(crc ^ static_cast<unsigned char>(*at)) & 0xFFU] ^ (crc >> 8);
  return ~crc;
#endif
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  return crc32c(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), before);
}

}  // namespace floodtide
