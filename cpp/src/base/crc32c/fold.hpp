// SPDX-License-Identifier: Apache-2.0
// The two ways to compute a CRC-32C. `crc` is the register: the checksum of the bytes before, all bits inverted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace floodtide {

/// Return the register after `bytes` more bytes: word by word, in three blocks at once, where the processor has an instruction
/// for that.
[[nodiscard]] std::uint32_t add_crc32c(std::uint32_t crc, const char* at, std::size_t bytes) noexcept;

inline constexpr std::size_t kFoldBytes = 256;  // that one round folds

/// A function that returns the register after `bytes` more bytes, a positive multiple of kFoldBytes.
///
/// A message and its remainder modulo the polynomial P have the same checksum. 64 bits A that lie n bits before others are
/// replaced by A (x^n mod P), which is added to those others: 2,048 bits at a time are folded onto the next 2,048 in this way.
/// Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009.
using FoldCrc32c = std::uint32_t (*)(std::uint32_t crc, const char* at, std::size_t bytes);
extern const FoldCrc32c kFoldCrc32cAvx512;

/// Return the function for this processor; null if it lacks AVX-512 or carry-less products of 512 bits.
[[nodiscard]] FoldCrc32c folding_crc32c() noexcept;

}  // namespace floodtide
