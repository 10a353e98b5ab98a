// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/crc32c.hpp"

#include <array>
#include <cstring>

#include "base/crc32c/fold.hpp"

namespace floodtide {
namespace {

constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}();

#if defined(__SSE4_2__)  // part of x86-64-v2, the baseline: 8 bytes per instruction
// An instruction takes three cycles and needs the result of the one before. Three blocks are therefore processed at once. The
// final register is linear over GF(2) in the initial register. kSkip contains, for each value of each byte of the register,
// the register after a block of zeros.
constexpr std::size_t kBlock = 1024;  // bytes
constexpr auto kSkip = [] {
  std::array<std::array<std::uint32_t, 256>, 4> skip{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t crc = 1U << bit;
    for (std::size_t i = 0; i < kBlock; ++i) crc = kTable[crc & 0xFFU] ^ (crc >> 8);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if ((byte >> bit % 8 & 1U) != 0) skip[bit / 8][byte] ^= crc;
    }
  }
  return skip;
}();

std::uint64_t skip_block(std::uint64_t crc) {
  return kSkip[0][crc & 0xFFU] ^ kSkip[1][crc >> 8 & 0xFFU] ^ kSkip[2][crc >> 16 & 0xFFU] ^ kSkip[3][crc >> 24 & 0xFFU];
}

std::uint64_t add_word(std::uint64_t crc, const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return __builtin_ia32_crc32di(crc, word);
}
#endif

constexpr std::size_t kLeastFolded = 1024;  // bytes; folding does not save time for shorter inputs

}  // namespace

FoldCrc32c folding_crc32c() noexcept {
#if defined(__x86_64__)
  static const bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
  return can ? kFoldCrc32cAvx512 : nullptr;
#else
  return nullptr;
#endif
}

std::uint32_t add_crc32c(std::uint32_t before, const char* at, std::size_t left) noexcept {
#if defined(__SSE4_2__)
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  std::uint64_t crc = before;
  for (; left >= 3 * kBlock; at += 3 * kBlock, left -= 3 * kBlock) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kBlock; i += kWord) {
      crc = add_word(crc, at + i);
      second = add_word(second, at + kBlock + i);
      third = add_word(third, at + 2 * kBlock + i);
    }
    crc = skip_block(skip_block(crc) ^ second) ^ third;
  }
  for (; left >= kWord; at += kWord, left -= kWord) crc = add_word(crc, at);
  auto rest = static_cast<std::uint32_t>(crc);
  for (; left > 0; ++at, --left) rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(*at));
  return rest;
#else
  std::uint32_t crc = before;
  for (; left > 0; ++at, --left) crc = kTable[(crc ^ static_cast<unsigned char>(*at)) & 0xFFU] ^ (crc >> 8);
  return crc;
#endif
}

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) noexcept {
  std::uint32_t crc = ~before;
  if (const FoldCrc32c fold = folding_crc32c(); fold != nullptr && bytes.size() >= kLeastFolded) {
    const std::size_t folded = bytes.size() / kFoldBytes * kFoldBytes;
    crc = fold(crc, bytes.data(), folded);
    bytes.remove_prefix(folded);
  }
  return ~add_crc32c(crc, bytes.data(), bytes.size());
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  return crc32c(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), before);
}

}  // namespace floodtide
