// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace floodtide {

/// Counter-based random numbers: the n-th number is a function of (seed, stream, n) alone, so that results never depend
/// on threads, rank order or time, and a checkpoint stores one integer. Philox4x32-10.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
class Philox {
 public:
  Philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter = 0) noexcept
      : seed_(seed), stream_(stream), counter_(counter) {}

  /// Blocks of four 32-bit numbers drawn so far.
  [[nodiscard]] std::uint64_t counter() const noexcept { return counter_; }

  /// The next block: 128 random bits.
  std::array<std::uint32_t, 4> block() noexcept;
  /// Uniform 64-bit number.
  std::uint64_t bits() noexcept;
  /// Uniform in [0, 1).
  double uniform() noexcept;
  /// Uniform in [0, bound), bound >= 1, without bias.
  std::uint64_t below(std::uint64_t bound) noexcept;
  /// Standard normal (Box-Muller, one value a block).
  double normal() noexcept;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_;
};

/// A stream number for a purpose (a small constant of the caller) and up to two indices, such as (walker, epoch).
[[nodiscard]] std::uint64_t stream_id(std::uint64_t purpose, std::uint64_t a = 0, std::uint64_t b = 0) noexcept;

/// A pseudo-random permutation of [0, size) that needs no memory: a four-round Feistel network on the smallest even number
/// of bits that holds `size`, walked until it falls inside. The same (seed, stream, size) always gives the same permutation.
class IndexPermutation {
 public:
  IndexPermutation(std::uint64_t seed, std::uint64_t stream, std::uint64_t size) noexcept;
  /// Image of `index` in [0, size).
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t size_;
  unsigned half_bits_;
};

}  // namespace floodtide
