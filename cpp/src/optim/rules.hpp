// SPDX-License-Identifier: Apache-2.0
// Shared parts of optimizers: their checks, what they do with a gradient first, and the factories of layer_rules.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/optim/optimizer.hpp"

namespace floodtide::optim {

std::unique_ptr<Optimizer> make_lamb(const ParameterValues& values, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_lars(const ParameterValues& values, const ParameterLayout& layout);

/// The gradient of a parameter as a rule uses it: scaled, clipped, and with coupled weight decay.
class Gradient {
 public:
  explicit Gradient(const StepOptions& step, double coupled_decay = 0)
      : factor_(static_cast<float>(step.gradient_factor)),
        clip_(static_cast<float>(step.clip)),
        coupled_(static_cast<float>(coupled_decay)) {}

  __attribute__((always_inline)) float operator()(float gradient, float parameter) const noexcept {
    return std::clamp(factor_ * gradient, -clip_, clip_) + coupled_ * parameter;
  }

 private:
  float factor_, clip_, coupled_;
};

inline void require_sizes(std::int64_t expected, std::span<float> parameters, std::span<const float> gradients) {
  FLOODTIDE_REQUIRE(std::ssize(parameters) == expected && std::ssize(gradients) == expected, shape_mismatch, "optimizer: got ",
                    parameters.size(), " parameters and ", gradients.size(), " gradients, expected ", expected, " of each");
}

}  // namespace floodtide::optim
