// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace floodtide {

/// Return the CRC-32C (Castagnoli) of some bytes. With `before`, the checksum of the bytes in front of them, return that of
/// all of them together. Source: RFC 3720, appendix B.4.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0) noexcept;
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

/// Return the form in which TensorFlow and LevelDB store checksums, so that a checksum of data with checksums stays sound.
[[nodiscard]] inline std::uint32_t masked_crc32c(std::string_view bytes) noexcept {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

}  // namespace floodtide
