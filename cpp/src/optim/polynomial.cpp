// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optim/rules.hpp"

namespace floodtide::optim {
namespace {

/// A linear warm-up to the scaled rate, then the scaled rate times (share of the updates that remain)^power. The rate is 0 from
/// total_steps on.
/// Source: Chen et al., "DeepLab", IEEE TPAMI 40, 2018, section 4.1 ("poly" policy).
class Polynomial final : public Schedule {
 public:
  Polynomial(const Warmup& warmup, std::int64_t total_steps, double power)
      : warmup_(warmup), total_steps_(total_steps), power_(power) {}

  double at(std::int64_t step) const override {
    if (step < warmup_.steps) return warmup_.at(step);
    if (step >= total_steps_) return 0.0;
    const double left = static_cast<double>(total_steps_ - step) / static_cast<double>(total_steps_ - warmup_.steps);
    return warmup_.target * std::pow(left, power_);
  }

 private:
  Warmup warmup_;
  std::int64_t total_steps_;
  double power_;
};

}  // namespace

std::unique_ptr<Schedule> make_polynomial(const ParameterValues& values, double factor) {
  const Warmup warmup(values, factor);
  return std::make_unique<Polynomial>(warmup, steps_beyond(warmup, values, "polynomial"), number(values, "power"));
}

}  // namespace floodtide::optim
