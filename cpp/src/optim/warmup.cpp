// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "floodtide/optim/schedule.hpp"

namespace floodtide::optim {

double Warmup::at(std::int64_t step, double base, double target) const noexcept {
  const double start = from_zero ? 0.0 : base;
  const double share = static_cast<double>(step) / static_cast<double>(steps);
  switch (shape) {
    case Shape::linear: return start + (target - start) * share;
    case Shape::exponential: return base > 0 ? base * std::pow(target / base, share) : 0.0;
    case Shape::jump: break;
  }
  return start;
}

}  // namespace floodtide::optim
