// SPDX-License-Identifier: Apache-2.0
#include "optim/rules.hpp"

namespace floodtide::optim {
namespace {

/// A linear warm-up to the scaled rate, which is then constant.
class Constant final : public Schedule {
 public:
  explicit Constant(const Warmup& warmup) : warmup_(warmup) {}

  double at(std::int64_t step) const override { return warmup_.at(step); }

 private:
  Warmup warmup_;
};

}  // namespace

Warmup::Warmup(const ParameterValues& values, double factor)
    : start(text(values, "warmup_start") == "zero" ? 0.0 : number(values, "base_lr")),
      target(number(values, "base_lr") * factor),
      steps(static_cast<std::int64_t>(number(values, "warmup_steps"))) {}

double Warmup::at(std::int64_t step) const noexcept {
  if (step >= steps) return target;
  return start + (target - start) * (static_cast<double>(step) / static_cast<double>(steps));
}

std::int64_t steps_beyond(const Warmup& warmup, const ParameterValues& values, std::string_view schedule) {
  const auto total_steps = static_cast<std::int64_t>(number(values, "total_steps"));
  FLOODTIDE_REQUIRE(total_steps > warmup.steps, invalid_argument, "schedule ", schedule, ": ", total_steps,
                    " steps in all, expected more than the ", warmup.steps, " of the warm-up");
  return total_steps;
}

std::unique_ptr<Schedule> make_constant(const ParameterValues& values, double factor) {
  return std::make_unique<Constant>(Warmup(values, factor));
}

}  // namespace floodtide::optim
