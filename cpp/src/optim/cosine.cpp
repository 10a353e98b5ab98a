// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "optim/rules.hpp"

namespace floodtide::optim {
namespace {

/// A linear warm-up to the scaled rate, then half a cosine down to 0 at total_steps. The rate is 0 afterwards.
/// Source: Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5 with one period and no restart.
class Cosine final : public Schedule {
 public:
  Cosine(const Warmup& warmup, std::int64_t total_steps) : warmup_(warmup), total_steps_(total_steps) {}

  double at(std::int64_t step) const override {
    if (step < warmup_.steps) return warmup_.at(step);
    if (step >= total_steps_) return 0.0;
    const double share = static_cast<double>(step - warmup_.steps) / static_cast<double>(total_steps_ - warmup_.steps);
    return warmup_.target * 0.5 * (1.0 + std::cos(std::numbers::pi * share));
  }

 private:
  Warmup warmup_;
  std::int64_t total_steps_;
};

}  // namespace

std::unique_ptr<Schedule> make_cosine(const ParameterValues& values, double factor) {
  const Warmup warmup(values, factor);
  return std::make_unique<Cosine>(warmup, steps_beyond(warmup, values, "cosine"));
}

}  // namespace floodtide::optim
