// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d/bf16_body.hpp"

#if !defined(__AVX512BF16__)
#error "compile this file for its instruction set"
#endif

namespace floodtide::kernels::bf16 {
namespace {

typedef std::int32_t Pair __attribute__((may_alias, aligned(2)));

/// Engine of VDPBF16PS: 24 of 32 registers hold sums. Two registers of `b` are multiplied with one broadcast pair of `a`.
class VectorEngine {
 public:
  template <int Panels>
  static constexpr Index rows() {
    return 24 / Panels;
  }
  template <int Panels>
  static Index part_of(Index left) {
    if constexpr (Panels == 2) return left >= 12 && left != 16 ? 12 : 8;
    return left >= 40 || left == 24 ? 24 : 16;
  }

  template <int Panels>
  FLOODTIDE_INLINE void multiply(const Product& product, Index rows) const {
    constexpr int most = 24 / Panels, fewer = 16 / Panels;
    if (rows == most) {
      block<most, Panels>(product);
    } else {
      block<fewer, Panels>(product);
    }
  }

 private:
  template <int Rows, int Panels>
  FLOODTIDE_BLOCK static void block(const Product& product) {
    __m512 sums[Rows][Panels];
#pragma GCC unroll 24
    for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 2
      for (int panel = 0; panel < Panels; ++panel) {
        const float* const from = product.c + row * product.c_stride + panel * kPanel;
        sums[row][panel] = product.add ? _mm512_load_ps(from) : _mm512_setzero_ps();
      }
    }
    const Index stride = product.a_stride;
    for (Index list = 0; list < product.lists; ++list) {
      const std::uint16_t* b = product.b + list * product.b_list;
      // One pointer for three rows, because an x86 address can be base, base + stride or base + 2 * stride.
      const std::uint16_t* base[(Rows + 2) / 3];
#pragma GCC unroll 24
      for (int i = 0; i < (Rows + 2) / 3; ++i) base[i] = product.a[list] + 3 * i * stride;
      for (Index pair = 0; pair < product.pairs; ++pair, b += 2 * kPanel) {
        __m512bh weights[Panels];
#pragma GCC unroll 2
        for (int panel = 0; panel < Panels; ++panel) {
          weights[panel] = (__m512bh)_mm512_load_si512(b + panel * product.b_panel);
        }
#pragma GCC unroll 24
        for (int row = 0; row < Rows; ++row) {
          const auto* const at = reinterpret_cast<const Pair*>(base[row / 3] + row % 3 * stride + 2 * pair);
          const auto value = (__m512bh)_mm512_set1_epi32(*at);
#pragma GCC unroll 2
          for (int panel = 0; panel < Panels; ++panel) {
            sums[row][panel] = _mm512_dpbf16_ps(sums[row][panel], value, weights[panel]);
          }
        }
      }
    }
#pragma GCC unroll 24
    for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 2
      for (int panel = 0; panel < Panels; ++panel) {
        _mm512_store_ps(product.c + row * product.c_stride + panel * kPanel, sums[row][panel]);
      }
    }
  }
};

}  // namespace

const Kernels kAvx512 = kernels_of<VectorEngine>;

}  // namespace floodtide::kernels::bf16
