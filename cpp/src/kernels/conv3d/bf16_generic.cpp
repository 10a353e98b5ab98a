// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d/bf16_tiles.hpp"

namespace floodtide::kernels::bf16 {
namespace {

/// Eight tiles in memory, and TDPBF16PS as Intel defines it: sums of the even and of the odd numbers of a row, rounded to
/// nearest even after each product, then their sum, then the sum with the tile. Denormal operands and results become zero.
/// Products are exact, except products below the smallest normal number.
///
/// Source: Intel, "Architecture Instruction Set Extensions Programming Reference", chapter "Intel AMX", TDPBF16PS.
class EmulatedTiles {
 public:
  template <int Tile>
  void zero() {
    for (Bits& row : tiles_[Tile]) row = Bits{};
  }
  template <int Tile>
  void load(const void* from, Index stride) {
    for (Index row = 0; row < 16; ++row) {
      __builtin_memcpy(&tiles_[Tile][row], static_cast<const char*>(from) + row * stride, sizeof(Bits));
    }
  }
  template <int Tile>
  void store(void* to, Index stride) {
    for (Index row = 0; row < 16; ++row) {
      __builtin_memcpy(static_cast<char*>(to) + row * stride, &tiles_[Tile][row], sizeof(Bits));
    }
  }
  template <int Sum, int A, int B>
  void dot() {
    Floats even_b[16], odd_b[16];
    for (int pair = 0; pair < 16; ++pair) {
      even_b[pair] = flushed(tiles_[B][pair] << 16);
      odd_b[pair] = flushed(tiles_[B][pair] & 0xFFFF0000U);
    }
    for (int row = 0; row < 16; ++row) {
      const Floats even_a = flushed(tiles_[A][row] << 16), odd_a = flushed(tiles_[A][row] & 0xFFFF0000U);
      Floats even{}, odd{};
      for (int pair = 0; pair < 16; ++pair) {
        even = flushed(even + even_a[pair] * even_b[pair]);
        odd = flushed(odd + odd_a[pair] * odd_b[pair]);
      }
      tiles_[Sum][row] = Bits(flushed(Floats(tiles_[Sum][row]) + flushed(even + odd)));
    }
  }

 private:
  static FLOODTIDE_INLINE Floats flushed(Bits bits) {
    bits = (bits & 0x7F800000U) == 0U ? bits & 0x80000000U : bits;
    return Floats(bits);
  }
  static FLOODTIDE_INLINE Floats flushed(Floats value) { return flushed(Bits(value)); }

  Bits tiles_[8][16];
};

}  // namespace

const Kernels kGeneric = kernels_of<TileEngine<EmulatedTiles>>;

}  // namespace floodtide::kernels::bf16
