// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "floodtide/base/specification.hpp"

namespace floodtide::optim {

/// How the learning rate changes after the warm-up: a pure function of the step.
class Course {
 public:
  Course() = default;
  Course(const Course&) = delete;
  Course& operator=(const Course&) = delete;
  Course(Course&&) = delete;
  Course& operator=(Course&&) = delete;
  virtual ~Course() = default;
  /// Return the rate as a multiple of the scaled rate. `step` counts from the end of the warm-up, from 0.
  [[nodiscard]] virtual double at(std::int64_t step) const = 0;
};

/// Warm-up: the rate goes from `start` to the scaled rate in the first `steps` steps.
/// Source: Goyal et al., "Accurate, large minibatch SGD", 2017, section 2.2 (gradual warm-up: linear, from the base rate).
struct Warmup {
  enum class Shape { linear, exponential, jump };
  std::int64_t steps = 0;
  bool from_zero = false;  ///< start is 0; otherwise the base rate
  Shape shape = Shape::linear;

  /// Return the rate of a step before `steps`.
  [[nodiscard]] double at(std::int64_t step, double base, double target) const noexcept;
};

/// Learning rate as a pure function of the training step and of the factor of the scaling rule: a warm-up from the base rate or
/// from zero to the scaled rate (base rate times factor), then a course. Steps count the optimizer updates done before, from 0.
class Schedule {
 public:
  Schedule(double base_lr, const Warmup& warmup, std::unique_ptr<Course> course)
      : base_lr_(base_lr), warmup_(warmup), course_(std::move(course)) {}

  [[nodiscard]] double at(std::int64_t step, double factor) const {
    const double target = base_lr_ * factor;
    return step < warmup_.steps ? warmup_.at(step, base_lr_, target) : target * course_->at(step - warmup_.steps);
  }

 private:
  double base_lr_;
  Warmup warmup_;
  std::unique_ptr<Course> course_;
};

/// Row of the registry of schedules. Schedules with the parameter `total_steps` get the number of steps after the warm-up.
struct ScheduleRow {
  std::string name;
  std::unique_ptr<Course> (*make)(const ParameterValues& resolved, std::int64_t steps);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const ScheduleRow> schedule_rows();

/// Make the schedule `name`. Throws Error(invalid_argument) for an unknown name, an unknown parameter, a value outside its
/// limits, a warm-up that is not shorter than total_steps, or an exponential warm-up from zero.
[[nodiscard]] Schedule make_schedule(std::string_view name, const ParameterValues& values);

}  // namespace floodtide::optim
