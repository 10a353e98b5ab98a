// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/bf16_body.hpp"

// Engine of tile instructions: 32 rows x 32 outputs in four tiles of sums, two tiles of each operand. `Tiles` has eight
// tiles of 16 rows of 64 bytes. The processor provides them, or a test emulates them.
namespace floodtide::kernels::bf16 {
namespace {

template <class Tiles>
class TileEngine {
 public:
  template <int Panels>
  static constexpr Index rows() {
    return 2 * kPanel;
  }
  template <int Panels>
  static Index part_of(Index left) {
    return smaller(left, 2 * kPanel);
  }

  template <int Panels>
  FLOODTIDE_INLINE void multiply(const Product& product, Index rows) {
    if (rows > kPanel) {
      block<2, Panels>(product);
    } else {
      block<1, Panels>(product);
    }
  }

 private:
  // Sums are in tile 2 * (group of rows) + panel, rows of `a` in tiles 4 and 5, panels of `b` in tiles 6 and 7.
  template <int Groups, int Panels>
  void block(const Product& product) {
    float* const c = product.c;
    float* const below = c + kPanel * product.c_stride;
    const Index c_bytes = product.c_stride * Index{sizeof(float)};
    if (product.add) {
      tiles_.template load<0>(c, c_bytes);
      if constexpr (Panels == 2) tiles_.template load<1>(c + kPanel, c_bytes);
      if constexpr (Groups == 2) tiles_.template load<2>(below, c_bytes);
      if constexpr (Groups == 2 && Panels == 2) tiles_.template load<3>(below + kPanel, c_bytes);
    } else {
      tiles_.template zero<0>();
      if constexpr (Panels == 2) tiles_.template zero<1>();
      if constexpr (Groups == 2) tiles_.template zero<2>();
      if constexpr (Groups == 2 && Panels == 2) tiles_.template zero<3>();
    }
    const Index a_bytes = product.a_stride * Index{sizeof(std::uint16_t)};
    constexpr Index pair_bytes = 2 * kPanel * Index{sizeof(std::uint16_t)};
    for (Index list = 0; list < product.lists; ++list) {
      const std::uint16_t* const a = product.a[list];
      const std::uint16_t* const b = product.b + list * product.b_list;
      for (Index pair = 0; pair < product.pairs; pair += kPanel) {
        tiles_.template load<6>(b + pair * 2 * kPanel, pair_bytes);
        if constexpr (Panels == 2) tiles_.template load<7>(b + product.b_panel + pair * 2 * kPanel, pair_bytes);
        tiles_.template load<4>(a + 2 * pair, a_bytes);
        tiles_.template dot<0, 4, 6>();
        if constexpr (Panels == 2) tiles_.template dot<1, 4, 7>();
        if constexpr (Groups == 2) {
          tiles_.template load<5>(a + kPanel * product.a_stride + 2 * pair, a_bytes);
          tiles_.template dot<2, 5, 6>();
          if constexpr (Panels == 2) tiles_.template dot<3, 5, 7>();
        }
      }
    }
    tiles_.template store<0>(c, c_bytes);
    if constexpr (Panels == 2) tiles_.template store<1>(c + kPanel, c_bytes);
    if constexpr (Groups == 2) tiles_.template store<2>(below, c_bytes);
    if constexpr (Groups == 2 && Panels == 2) tiles_.template store<3>(below + kPanel, c_bytes);
  }

  Tiles tiles_;
};

}  // namespace
}  // namespace floodtide::kernels::bf16
