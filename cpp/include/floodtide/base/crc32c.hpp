// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace floodtide {

/// Return the CRC-32C (Castagnoli) of `bytes`. If `before` is the checksum of the bytes that precede `bytes`, the result is the
/// checksum of both parts together. Source: RFC 3720, appendix B.4.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0) noexcept;
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

/// Return the CRC-32C of `bytes` in the masked form that TensorFlow and LevelDB store. The mask is needed because a CRC over
/// data that contains its own CRC detects errors badly.
[[nodiscard]] inline std::uint32_t masked_crc32c(std::string_view bytes) noexcept {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

}  // namespace floodtide
