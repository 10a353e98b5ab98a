// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optim/courses.hpp"

namespace floodtide::optim {
namespace {

/// (share of the steps that remain)^power. The rate is 0 afterwards.
/// Source: Chen et al., "DeepLab", IEEE TPAMI 40, 2018, section 4.1 ("poly" policy).
class Polynomial final : public Course {
 public:
  Polynomial(std::int64_t steps, double power) : steps_(steps), power_(power) {}

  double at(std::int64_t step) const override {
    if (step >= steps_) return 0.0;
    return std::pow(static_cast<double>(steps_ - step) / static_cast<double>(steps_), power_);
  }

 private:
  std::int64_t steps_;
  double power_;
};

}  // namespace

std::unique_ptr<Course> make_polynomial(const ParameterValues& values, std::int64_t steps) {
  return std::make_unique<Polynomial>(steps, number(values, "power"));
}

}  // namespace floodtide::optim
