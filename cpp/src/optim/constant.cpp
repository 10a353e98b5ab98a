// SPDX-License-Identifier: Apache-2.0
#include "optim/rules.hpp"

namespace floodtide::optim {
namespace {

/// start + (target - start) * step / warmup_steps, then target: a constant rate with a linear warm-up.
/// Source: Goyal et al., "Accurate, large minibatch SGD", 2017, section 2.2 (gradual warm-up).
class Constant final : public Schedule {
 public:
  Constant(double start, double target, std::int64_t warmup_steps)
      : start_(start), target_(target), warmup_steps_(warmup_steps) {}

  double at(std::int64_t step) const override {
    if (step >= warmup_steps_) return target_;
    return start_ + (target_ - start_) * (static_cast<double>(step) / static_cast<double>(warmup_steps_));
  }

 private:
  double start_, target_;
  std::int64_t warmup_steps_;
};

}  // namespace

std::unique_ptr<Schedule> make_constant(const ParameterValues& values, double factor) {
  const double base_lr = number(values, "base_lr");
  const double start = text(values, "warmup_start") == "zero" ? 0.0 : base_lr;
  return std::make_unique<Constant>(start, base_lr * factor, static_cast<std::int64_t>(number(values, "warmup_steps")));
}

}  // namespace floodtide::optim
