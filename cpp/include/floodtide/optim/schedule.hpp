// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/specification.hpp"

namespace floodtide::optim {

/// Row of the registry of scaling rules: how the learning rate grows with the number of workers. Workers are the walkers whose
/// gradients are averaged.
struct ScaleRow {
  std::string name;
  double (*factor)(std::int64_t workers, const ParameterValues& values);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const ScaleRow> scale_rows();

/// Return the factor by which a scaling rule multiplies the base learning rate. Parameters that `values` leaves out have their
/// defaults. Throws Error(invalid_argument) for an unknown rule or parameter, a value outside its limits, or if `workers` is
/// below 1.
[[nodiscard]] double scale_factor(std::string_view rule, const ParameterValues& values, std::int64_t workers);

/// Learning rate as a pure function of the training step. Steps count the optimizer updates done before, from 0.
class Schedule {
 public:
  Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  Schedule(Schedule&&) = delete;
  Schedule& operator=(Schedule&&) = delete;
  virtual ~Schedule() = default;
  [[nodiscard]] virtual double at(std::int64_t step) const = 0;
};

/// Row of the registry of schedules. `factor` comes from the scaling rule: after the warm-up, the rate is base_lr * factor.
struct ScheduleRow {
  std::string name;
  std::unique_ptr<Schedule> (*make)(const ParameterValues& resolved, double factor);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const ScheduleRow> schedule_rows();

/// Make the schedule `name`. Throws Error(invalid_argument) for an unknown name, an unknown parameter, or a value outside its
/// limits.
[[nodiscard]] std::unique_ptr<Schedule> make_schedule(std::string_view name, const ParameterValues& values, double factor);

}  // namespace floodtide::optim
