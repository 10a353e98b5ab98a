// SPDX-License-Identifier: Apache-2.0
#include "floodtide/tensor/view.hpp"

#include <algorithm>

#include "floodtide/base/error.hpp"

namespace floodtide {

std::int64_t checked_volume(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  bool fits = std::ranges::all_of(shape, [](std::int64_t extent) { return extent >= 0; });
  for (const std::int64_t extent : shape) fits = fits && !__builtin_mul_overflow(product, extent, &product);
  FLOODTIDE_REQUIRE(fits, invalid_argument, "array: no array has the shape ", Show{shape});
  return product;
}

}  // namespace floodtide
