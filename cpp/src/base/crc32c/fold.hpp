// SPDX-License-Identifier: Apache-2.0
// Two ways to compute a CRC-32C. `crc` is the register: the checksum of the preceding bytes, with all bits inverted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace floodtide {

/// Return the register after `bytes` more bytes. With SSE4.2, the function uses the CRC instruction on words of 8 bytes;
/// otherwise it uses a table.
[[nodiscard]] std::uint32_t add_crc32c(std::uint32_t crc, const char* at, std::size_t bytes) noexcept;

inline constexpr std::size_t kFoldBytes = 256;  // bytes that one round folds

/// Function that returns the register after `bytes` more bytes. `bytes` is a positive multiple of kFoldBytes.
///
/// A message and its remainder modulo the polynomial P have the same checksum. Let A be 64 bits that are n bits before other
/// bits. A can be replaced by A (x^n mod P), which is added to the other bits. Each round folds 2,048 bits onto the next 2,048.
/// Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009.
using FoldCrc32c = std::uint32_t (*)(std::uint32_t crc, const char* at, std::size_t bytes);
extern const FoldCrc32c kFoldCrc32cAvx512;

/// Return the function for this processor, or null if it does not support AVX-512 and 512-bit carry-less products (VPCLMULQDQ).
[[nodiscard]] FoldCrc32c folding_crc32c() noexcept;

}  // namespace floodtide
