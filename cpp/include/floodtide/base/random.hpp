// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace floodtide {

/// Counter-based random number generator, Philox4x32-10. The n-th block of numbers depends on (seed, stream, n) only. Results
/// therefore do not depend on threads, rank order or time, and a checkpoint stores one integer per generator.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
class Philox {
 public:
  Philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter = 0) noexcept
      : seed_(seed), stream_(stream), counter_(counter) {}

  /// Return the number of blocks (four 32-bit numbers each) drawn so far.
  [[nodiscard]] std::uint64_t counter() const noexcept { return counter_; }

  /// Draw the next block: 128 random bits.
  std::array<std::uint32_t, 4> block() noexcept;
  /// Draw a uniform 64-bit number.
  std::uint64_t bits() noexcept;
  /// Draw a uniform number in [0, 1).
  double uniform() noexcept;
  /// Draw a uniform integer in [0, bound), without bias. `bound` is at least 1.
  std::uint64_t below(std::uint64_t bound) noexcept;
  /// Draw a standard normal number (Box-Muller, one number per block).
  double normal() noexcept;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_;
};

/// Return the stream number for a purpose and up to two indices, such as (walker, epoch). The caller chooses a small constant
/// as the purpose.
[[nodiscard]] std::uint64_t stream_id(std::uint64_t purpose, std::uint64_t a = 0, std::uint64_t b = 0) noexcept;

/// Pseudo-random permutation of [0, size) that is computed without a table. The same (seed, stream, size) always gives the same
/// permutation.
///
/// Method: a four-round Feistel network on the smallest even number of bits that can hold every index. The network is applied
/// again until the result is below `size` (cycle walking).
class IndexPermutation {
 public:
  IndexPermutation(std::uint64_t seed, std::uint64_t stream, std::uint64_t size) noexcept;
  /// Return the place in [0, size) to which the permutation moves `index`.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t size_;
  unsigned half_bits_;
};

}  // namespace floodtide
