// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "optim/courses.hpp"

namespace floodtide::optim {
namespace {

/// Half a cosine from 1 down to 0. The rate is 0 afterwards.
/// Source: Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5 with one period and no restart.
class Cosine final : public Course {
 public:
  explicit Cosine(std::int64_t steps) : steps_(steps) {}

  double at(std::int64_t step) const override {
    if (step >= steps_) return 0.0;
    return 0.5 * (1.0 + std::cos(std::numbers::pi * (static_cast<double>(step) / static_cast<double>(steps_))));
  }

 private:
  std::int64_t steps_;
};

}  // namespace

std::unique_ptr<Course> make_cosine(const ParameterValues& /*values*/, std::int64_t steps) {
  return std::make_unique<Cosine>(steps);
}

}  // namespace floodtide::optim
