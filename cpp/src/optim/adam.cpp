// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// m = b1 m + (1 - b1) d; v = b2 v + (1 - b2) d^2; p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps), where d is the
/// gradient (Gradient), and t counts the steps from 1.
/// Source: torch.optim.Adam; Kingma and Ba, "Adam", ICLR 2015, algorithm 1.
class Adam final : public Optimizer {
 public:
  Adam(double beta1, double beta2, double eps, const Decay& decay, std::int64_t count)
      : beta1_(beta1), beta2_(beta2), eps_(eps), decay_(decay), first_(count), second_(count), steps_(1) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    require_sizes(first_.size(), parameters, gradients);
    const auto t = static_cast<double>(++steps_[0]);
    // The root of the second moment is multiplied by the inverse of its correction: a product is faster than a division.
    const auto rate = static_cast<float>(options.lr / (1 - std::pow(beta1_, t)));
    const auto inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, t)));
    const auto c1 = static_cast<float>(1 - beta1_);
    const auto b2 = static_cast<float>(beta2_);
    const auto c2 = static_cast<float>(1 - beta2_);
    const auto eps = static_cast<float>(eps_);
    const Gradient gradient(options, decay_);
    const float pull = decay_.pull(options.lr);
    float* const p = parameters.data();
    float* const m = first_.data();
    float* const v = second_.data();
    const float* const g = gradients.data();
    sweep(first_.size(), [=](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = gradient(g[i], p[i]);
        m[i] += c1 * (d - m[i]);
        v[i] = b2 * v[i] + c2 * d * d;
        p[i] -= pull * p[i] + rate * (m[i] / (std::sqrt(v[i]) * inverse_root + eps));
      }
    });
  }
  std::vector<NamedSpan> state() override {
    return {{"first_moment", first_.span()}, {"second_moment", second_.span()}, {"steps", steps_.span()}};
  }

 private:
  double beta1_, beta2_, eps_;
  Decay decay_;
  AlignedBuffer<float> first_, second_;
  AlignedBuffer<std::int64_t> steps_;
};

std::unique_ptr<Optimizer> made(const ParameterValues& values, const Decay& decay, const ParameterLayout& layout) {
  return std::make_unique<Adam>(number(values, "beta1"), number(values, "beta2"), number(values, "eps"), decay,
                                layout.trained_size());
}

}  // namespace

std::unique_ptr<Optimizer> make_adam(const ParameterValues& values, const ParameterLayout& layout) {
  return made(values, Decay::of(values), layout);
}

std::unique_ptr<Optimizer> make_adamw(const ParameterValues& values, const ParameterLayout& layout) {
  return made(values, {.weight = number(values, "weight_decay"), .decoupled = true}, layout);
}

}  // namespace floodtide::optim
