// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/random.hpp"

#include <cmath>
#include <numbers>

namespace floodtide {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53U, kMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9U, kWeyl1 = 0xBB67AE85U;

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> x, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMultiplier0} * x[0];
    const std::uint64_t p1 = std::uint64_t{kMultiplier1} * x[2];
    x = {static_cast<std::uint32_t>(p1 >> 32) ^ x[1] ^ key[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ x[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return x;
}

std::uint64_t mix(std::uint64_t x) noexcept {  // SplitMix64's finaliser
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

std::array<std::uint32_t, 4> Philox::block() noexcept {
  const std::uint64_t n = counter_++;
  return philox({static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), static_cast<std::uint32_t>(stream_),
                 static_cast<std::uint32_t>(stream_ >> 32)},
                {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
}

std::uint64_t Philox::bits() noexcept {
  const auto x = block();
  return (std::uint64_t{x[1]} << 32) | x[0];
}

double Philox::uniform() noexcept { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

std::uint64_t Philox::below(std::uint64_t bound) noexcept {
  // Numbers below 2^64 mod `bound` are drawn again, so that the count of accepted numbers is a multiple of `bound`.
  const std::uint64_t excess = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t x = bits();
    if (x >= excess) return x % bound;
  }
}

double Philox::normal() noexcept {
  const auto x = block();
  const double u = (static_cast<double>((std::uint64_t{x[1]} << 32 | x[0]) >> 11) + 0.5) * 0x1.0p-53;
  const double v = static_cast<double>((std::uint64_t{x[3]} << 32 | x[2]) >> 11) * 0x1.0p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

std::uint64_t stream_id(std::uint64_t purpose, std::uint64_t a, std::uint64_t b) noexcept {
  return mix(mix(mix(purpose + 0x9E3779B97F4A7C15ULL) + a) + b);
}

IndexPermutation::IndexPermutation(std::uint64_t seed, std::uint64_t stream, std::uint64_t size) noexcept
    : seed_(seed), stream_(stream), size_(size), half_bits_(1) {
  while (half_bits_ < 32 && (std::uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

std::uint64_t IndexPermutation::operator()(std::uint64_t index) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t next = left ^ (mix(mix(seed_ ^ mix(stream_ + round)) + right) & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= size_);
  return index;
}

}  // namespace floodtide
