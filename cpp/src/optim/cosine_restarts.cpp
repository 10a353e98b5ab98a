// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "optim/courses.hpp"

namespace floodtide::optim {
namespace {

/// Half cosines from 1 down to `lowest`. Each period is `growth` times as long as the period before.
/// Source: Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5.
class CosineRestarts final : public Course {
 public:
  CosineRestarts(double period, double growth, double lowest) : period_(period), growth_(growth), lowest_(lowest) {}

  double at(std::int64_t step) const override {
    double left = static_cast<double>(step);
    double period = period_;
    if (growth_ == 1) {
      left = std::fmod(left, period);
    } else {
      for (; left >= period; period *= growth_) left -= period;  // at most some hundred periods, because they grow
    }
    return lowest_ + (1 - lowest_) * 0.5 * (1.0 + std::cos(std::numbers::pi * (left / period)));
  }

 private:
  double period_, growth_, lowest_;
};

}  // namespace

std::unique_ptr<Course> make_cosine_restarts(const ParameterValues& values, std::int64_t /*steps*/) {
  return std::make_unique<CosineRestarts>(number(values, "period"), number(values, "growth"), number(values, "lowest"));
}

}  // namespace floodtide::optim
