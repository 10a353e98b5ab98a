// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/probability.hpp"

#include <cmath>

namespace floodtide::segment {
namespace {

constexpr int kSteps = 254;

/// Return a bound of numpy.linspace(0, 1, 255). Comparing with bounds, as google/ffn does, can differ by one from floor(254 p).
double bound(int step) noexcept { return step == kSteps ? 1.0 : step * (1.0 / kSteps); }

}  // namespace

std::uint8_t quantised_probability(float logit) noexcept {
  if (std::isnan(logit)) return 0;
  const auto p = static_cast<double>(1.0F / (1.0F + std::exp(-logit)));
  int step = static_cast<int>(p * kSteps);
  while (step < kSteps && bound(step + 1) <= p) ++step;
  while (step > 0 && bound(step) > p) --step;
  return static_cast<std::uint8_t>(step + 1);
}

}  // namespace floodtide::segment
