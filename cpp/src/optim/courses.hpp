// SPDX-License-Identifier: Apache-2.0
// Factories of the courses of schedules, for schedules.cpp.
#pragma once

#include <cstdint>
#include <memory>

#include "floodtide/base/error.hpp"
#include "floodtide/optim/schedule.hpp"

namespace floodtide::optim {

std::unique_ptr<Course> make_constant(const ParameterValues& values, std::int64_t steps);
std::unique_ptr<Course> make_cosine(const ParameterValues& values, std::int64_t steps);
std::unique_ptr<Course> make_cosine_restarts(const ParameterValues& values, std::int64_t steps);
std::unique_ptr<Course> make_cyclic(const ParameterValues& values, std::int64_t steps);
std::unique_ptr<Course> make_exponential(const ParameterValues& values, std::int64_t steps);
std::unique_ptr<Course> make_one_cycle(const ParameterValues& values, std::int64_t steps);
std::unique_ptr<Course> make_polynomial(const ParameterValues& values, std::int64_t steps);
std::unique_ptr<Course> make_range_test(const ParameterValues& values, std::int64_t steps);
std::unique_ptr<Course> make_step(const ParameterValues& values, std::int64_t steps);

/// Return a parameter that is an integer.
[[nodiscard]] inline std::int64_t whole(const ParameterValues& values, std::string_view name) {
  return static_cast<std::int64_t>(number(values, name));
}

}  // namespace floodtide::optim
