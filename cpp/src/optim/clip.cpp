// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "optim/rules.hpp"

namespace floodtide::optim {

void clip_entries(std::span<float> gradients, float limit) {
  FLOODTIDE_REQUIRE(limit > 0, invalid_argument, "clip: the limit is ", limit, ", expected a positive number");
  float* const g = gradients.data();
  for_pieces(std::ssize(gradients), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) g[i] = std::clamp(g[i], -limit, limit);
  });
}

}  // namespace floodtide::optim
