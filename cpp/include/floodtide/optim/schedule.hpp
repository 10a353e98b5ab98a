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

/// How the learning rate grows with the number of workers (walkers whose gradients are averaged).
struct ScaleRow {
  std::string name;
  double (*factor)(std::int64_t workers);
  std::string help;
};

[[nodiscard]] std::span<const ScaleRow> scale_rows();

/// What the rule multiplies the base rate by. Throws Error(invalid_argument) for an unknown rule or workers < 1.
[[nodiscard]] double scale_factor(std::string_view rule, std::int64_t workers);

/// A learning rate as a pure function of the step (optimizer updates done before, from 0).
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

/// A row of the registry. `factor` is the scaling rule's: the schedule ends at base_lr * factor.
struct ScheduleRow {
  std::string name;
  std::unique_ptr<Schedule> (*make)(const ParameterValues& resolved, double factor);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const ScheduleRow> schedule_rows();

/// The schedule of that name. Throws Error(invalid_argument) as make_optimizer does.
[[nodiscard]] std::unique_ptr<Schedule> make_schedule(std::string_view name, const ParameterValues& values, double factor);

}  // namespace floodtide::optim
