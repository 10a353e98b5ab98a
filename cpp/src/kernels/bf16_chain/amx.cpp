// SPDX-License-Identifier: Apache-2.0
#include "kernels/bf16_chain/body.hpp"

#if !defined(__AVX512BF16__)
#error "compile this file for its instruction set"
#endif

namespace floodtide::kernels::bf16 {
namespace {

/// The tiles of the processor. They are configured while an object exists. Assembly instead of the intrinsics, because GCC's
/// intrinsics accept only literal numbers of tiles.
class ProcessorTiles {
 public:
  ProcessorTiles() {
    alignas(64) Configuration configuration{};
    configuration.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      configuration.row_bytes[tile] = 64;
      configuration.rows[tile] = kPanel;
    }
    asm volatile("ldtilecfg %0" ::"m"(configuration));
  }
  ProcessorTiles(const ProcessorTiles&) = delete;
  ProcessorTiles& operator=(const ProcessorTiles&) = delete;
  ProcessorTiles(ProcessorTiles&&) = delete;
  ProcessorTiles& operator=(ProcessorTiles&&) = delete;
  ~ProcessorTiles() { asm volatile("tilerelease"); }

  template <int Tile>
  FLOODTIDE_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(Tile));
  }
  template <int Tile>
  FLOODTIDE_INLINE void load(const void* from, Index stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(Tile) : "memory");
  }
  template <int Tile>
  FLOODTIDE_INLINE void store(void* to, Index stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(Tile) : "memory");
  }
  template <int Sum, int A, int B>
  FLOODTIDE_INLINE void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(A), "i"(B));
  }
  static FLOODTIDE_INLINE Halves rounded(Floats low, Floats high) {
    return Halves(_mm512_cvtne2ps_pbh(__m512(high), __m512(low)));
  }

 private:
  struct Configuration {  // operand of LDTILECFG
    std::uint8_t palette, start_row, reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t rows[16];
  };
  static_assert(sizeof(Configuration) == 64);
};

}  // namespace

const Kernels kAmx = kernels_of<ProcessorTiles>;

}  // namespace floodtide::kernels::bf16
