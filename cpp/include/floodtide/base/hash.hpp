// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace floodtide {

/// Return a 64-bit hash of `bytes`. `start` is the hash of preceding bytes.
///
/// Two inputs that differ in one aligned word of eight bytes always have different hashes. Other different inputs have the same
/// hash with a probability of about 2^-64. Pieces of fixed length are hashed on all threads, and then combined in order, so
/// that the hash does not depend on the number of threads.
[[nodiscard]] std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t start = 0);

}  // namespace floodtide
