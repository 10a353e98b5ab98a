// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "floodtide/base/specification.hpp"

namespace floodtide::optim {

/// How the learning rate changes after the warm-up: returns the rate as a multiple of the scaled rate. `step` counts from the
/// end of the warm-up, from 0, and may lie between two whole steps.
using Course = std::function<double(double step)>;

/// How the steps of a training follow the steps that its schedule was planned for: from `step` on, each step stands for
/// `per_step` planned steps.
struct Pace {
  std::int64_t step = 0;
  double planned = 0;   ///< the planned step that `step` stands for
  double per_step = 1;  ///< above 0

  /// Return the planned step that stands for `other`, which is not before `step`.
  [[nodiscard]] double planned_for(std::int64_t other) const { return planned + static_cast<double>(other - step) * per_step; }
};

/// Learning rate as a pure function of the planned training step and of the factor of the scaling rule: a warm-up, then a
/// course. Steps count the optimizer updates done before, from 0.
///
/// In the warm-up, the rate rises linearly from the base rate or from zero to the scaled rate (base rate times factor). Source:
/// Goyal et al., "Accurate, large minibatch SGD", 2017, section 2.2 (gradual warm-up, from the base rate).
class Schedule {
 public:
  Schedule(double base_lr, std::int64_t warmup_steps, bool from_zero, Course course)
      : base_lr_(base_lr), warmup_steps_(warmup_steps), from_zero_(from_zero), course_(std::move(course)) {}

  [[nodiscard]] double at(double step, double factor) const {
    const double target = base_lr_ * factor;
    const auto warmup = static_cast<double>(warmup_steps_);
    if (step >= warmup) return target * course_(step - warmup);
    const double start = from_zero_ ? 0.0 : base_lr_;
    return start + (target - start) * (step / warmup);
  }

 private:
  double base_lr_;
  std::int64_t warmup_steps_;
  bool from_zero_;
  Course course_;
};

/// Row of the registry of schedules. Schedules with the parameter `total_steps` get the number of steps after the warm-up.
struct ScheduleRow {
  std::string name;
  Course (*make)(const ParameterValues& resolved, std::int64_t steps);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const ScheduleRow> schedule_rows();

/// Make the schedule `name`. Throws Error(invalid_argument) for an unknown name, an unknown parameter, a value outside its
/// limits, or a warm-up that is not shorter than total_steps.
[[nodiscard]] Schedule make_schedule(std::string_view name, const ParameterValues& values);

}  // namespace floodtide::optim
