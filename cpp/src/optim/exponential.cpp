// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optim/courses.hpp"

namespace floodtide::optim {
namespace {

/// decay^(step / period); with `staircase`, the exponent is rounded down.
/// Source: tf.train.exponential_decay, which google/ffn uses with staircase (learning_rate_decay_factor, decay_steps).
class Exponential final : public Course {
 public:
  Exponential(double decay, double period, bool staircase) : decay_(decay), period_(period), staircase_(staircase) {}

  double at(std::int64_t step) const override {
    const double exponent = static_cast<double>(step) / period_;
    return std::pow(decay_, staircase_ ? std::floor(exponent) : exponent);
  }

 private:
  double decay_, period_;
  bool staircase_;
};

}  // namespace

std::unique_ptr<Course> make_exponential(const ParameterValues& values, std::int64_t /*steps*/) {
  return std::make_unique<Exponential>(number(values, "decay"), number(values, "period"), number(values, "staircase") != 0);
}

}  // namespace floodtide::optim
