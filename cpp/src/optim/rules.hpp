// SPDX-License-Identifier: Apache-2.0
// Shared parts of optimizers: their factories (for optimizers.cpp), their checks, and what they do with a gradient first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/optim/optimizer.hpp"

namespace floodtide::optim {

std::unique_ptr<Optimizer> make_adadelta(const ParameterValues& values, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_adagrad(const ParameterValues& values, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_adam(const ParameterValues& values, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_adamw(const ParameterValues& values, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_lamb(const ParameterValues& values, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_lars(const ParameterValues& values, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_momentum(const ParameterValues& values, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_rmsprop(const ParameterValues& values, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_sgd(const ParameterValues& values, const ParameterLayout& layout);

/// Weight decay. Coupled: weight * p is added to the gradient (L2 regularisation). Decoupled: p is multiplied by 1 - lr *
/// weight (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019).
struct Decay {
  double weight = 0;
  bool decoupled = false;

  static Decay of(const ParameterValues& values) {
    return {number(values, "weight_decay"), text(values, "decay") == "decoupled"};
  }
  /// Return the share of a parameter that a step removes; 0 if coupled.
  [[nodiscard]] float pull(double lr) const { return decoupled ? static_cast<float>(lr * weight) : 0.0F; }
};

/// The gradient of a parameter as a rule uses it: scaled, clipped, and with coupled weight decay.
class Gradient {
 public:
  explicit Gradient(const StepOptions& step, const Decay& decay = {})
      : factor_(static_cast<float>(step.gradient_factor)),
        clip_(static_cast<float>(step.clip)),
        coupled_(decay.decoupled ? 0.0F : static_cast<float>(decay.weight)) {}

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
