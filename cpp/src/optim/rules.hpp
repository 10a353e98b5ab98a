// SPDX-License-Identifier: Apache-2.0
// Shared parts of optimizers and schedules: their factories (for registry.cpp) and their checks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "floodtide/base/error.hpp"
#include "floodtide/base/pieces.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/optim/schedule.hpp"

namespace floodtide::optim {

std::unique_ptr<Optimizer> make_sgd(const ParameterValues& values, std::int64_t parameter_count);
std::unique_ptr<Optimizer> make_momentum(const ParameterValues& values, std::int64_t parameter_count);
std::unique_ptr<Optimizer> make_adam(const ParameterValues& values, std::int64_t parameter_count);
std::unique_ptr<Schedule> make_constant(const ParameterValues& values, double factor);
std::unique_ptr<Schedule> make_cosine(const ParameterValues& values, double factor);
std::unique_ptr<Schedule> make_polynomial(const ParameterValues& values, double factor);

/// Linear warm-up: the rate is start + (target - start) * step / steps during the first `steps` steps, then `target`, the
/// scaled rate. Source: Goyal et al., "Accurate, large minibatch SGD", 2017, section 2.2 (gradual warm-up).
struct Warmup {
  Warmup(const ParameterValues& values, double factor);
  [[nodiscard]] double at(std::int64_t step) const noexcept;
  double start, target;
  std::int64_t steps;
};

/// Return the parameter total_steps. Throws Error(invalid_argument) unless it is larger than the steps of the warm-up.
[[nodiscard]] std::int64_t steps_beyond(const Warmup& warmup, const ParameterValues& values, std::string_view schedule);

inline void require_sizes(std::int64_t expected, std::span<float> parameters, std::span<const float> gradients) {
  FLOODTIDE_REQUIRE(std::ssize(parameters) == expected && std::ssize(gradients) == expected, shape_mismatch, "optimizer: got ",
                    parameters.size(), " parameters and ", gradients.size(), " gradients, expected ", expected, " of each");
}

}  // namespace floodtide::optim
