// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "optim/courses.hpp"

namespace floodtide::optim {
namespace {

/// From 1 up to `growth` in the last step, along an exponential or a line, to find the largest rate that still works.
/// Source: Smith, "Cyclical learning rates", WACV 2017, section 3.3 (LR range test).
class RangeTest final : public Course {
 public:
  RangeTest(std::int64_t steps, double growth, bool exponential)
      : last_step_(static_cast<double>(std::max<std::int64_t>(steps - 1, 1))), growth_(growth), exponential_(exponential) {}

  double at(std::int64_t step) const override {
    const double share = std::min(static_cast<double>(step) / last_step_, 1.0);
    return exponential_ ? std::pow(growth_, share) : 1 + (growth_ - 1) * share;
  }

 private:
  double last_step_, growth_;
  bool exponential_;
};

}  // namespace

std::unique_ptr<Course> make_range_test(const ParameterValues& values, std::int64_t steps) {
  return std::make_unique<RangeTest>(steps, number(values, "growth"), text(values, "shape") == "exponential");
}

}  // namespace floodtide::optim
