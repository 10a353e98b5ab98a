// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Network that predicts object where the image is positive. Logits are highest in the middle of the field of view, so that the
/// best moves are straight.
inline void by_sign(View<const float, 3> image, View<const float, 3> /*logits*/, View<float, 3> out_logits) {
  const Shape<3>& size = image.shape();
  for (std::int64_t z = 0; z < size[0]; ++z) {
    for (std::int64_t y = 0; y < size[1]; ++y) {
      for (std::int64_t x = 0; x < size[2]; ++x) {
        const auto away = std::abs(z - size[0] / 2) + std::abs(y - size[1] / 2) + std::abs(x - size[2] / 2);
        out_logits(z, y, x) = image(z, y, x) > 0.0F ? 4.0F - 0.1F * static_cast<float>(away) : -4.0F;
      }
    }
  }
}

}  // namespace floodtide::segment
