// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace floodtide::test {

/// Eight tiles of AMX in memory, for the kernels of bf16_chain on processors without AMX. Products and sums are float, in the
/// order of TDPBF16PS but for its separate sums of even and odd products.
class EmulatedTiles {
 public:
  template <int Tile>
  void zero() {
    std::memset(rows_[Tile], 0, sizeof rows_[Tile]);
  }
  template <int Tile>
  void load(const void* from, std::int64_t stride) {
    for (int row = 0; row < 16; ++row) std::memcpy(rows_[Tile][row], static_cast<const char*>(from) + row * stride, 64);
  }
  template <int Tile>
  void store(void* to, std::int64_t stride) {
    for (int row = 0; row < 16; ++row) std::memcpy(static_cast<char*>(to) + row * stride, rows_[Tile][row], 64);
  }
  template <int Sum, int A, int B>
  void dot() {
    for (int row = 0; row < 16; ++row) {
      for (int pair = 0; pair < 16; ++pair) {
        for (int n = 0; n < 16; ++n) {
          const float even = number<A>(row, 2 * pair) * number<B>(pair, 2 * n);
          const float odd = number<A>(row, 2 * pair + 1) * number<B>(pair, 2 * n + 1);
          float sum = 0;
          std::memcpy(&sum, rows_[Sum][row] + 4 * n, 4);
          sum += even + odd;
          std::memcpy(rows_[Sum][row] + 4 * n, &sum, 4);
        }
      }
    }
  }
  template <class Floats>
  static auto rounded(Floats low, Floats high) {
    typedef std::uint16_t Halves __attribute__((vector_size(64), may_alias));
    Halves result{};
    for (int i = 0; i < 16; ++i) {
      result[i] = round(low[i]);
      result[i + 16] = round(high[i]);
    }
    return result;
  }

 private:
  /// Return the number rounded to the nearest bfloat16, to even.
  static std::uint16_t round(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
  }
  template <int Tile>
  [[nodiscard]] float number(int row, int index) const {
    std::uint16_t half = 0;
    std::memcpy(&half, rows_[Tile][row] + 2 * index, sizeof half);
    const std::uint32_t bits = std::uint32_t{half} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  alignas(64) unsigned char rows_[8][16][64] = {};
};

}  // namespace floodtide::test
