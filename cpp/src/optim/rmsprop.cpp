// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// s = rho s + (1 - rho) d^2; with `centered`, c = rho c + (1 - rho) d, else c = 0; v = momentum v + d / (sqrt(s - c^2) + eps);
/// p -= lr v. d is the gradient (Gradient).
/// Source: Tieleman and Hinton, lecture 6.5, 2012; Graves, arXiv 1308.0850 (centered); torch.optim.RMSprop (rho: alpha).
class RmsProp final : public Optimizer {
 public:
  RmsProp(double rho, float eps, float momentum, bool centered, const Decay& decay, std::int64_t count)
      : rho_(rho),
        eps_(eps),
        momentum_(momentum),
        decay_(decay),
        mean_(centered ? count : 0),
        squares_(count),
        velocity_(momentum > 0 ? count : 0) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    require_sizes(squares_.size(), parameters, gradients);
    const auto keep = static_cast<float>(rho_), share = static_cast<float>(1 - rho_);
    float* const s = squares_.data();
    float* const c = mean_.data();
    if (mean_.size() > 0) {
      update(parameters, gradients, options, [=, eps = eps_](std::int64_t i, float d) FLOODTIDE_SWEEP {
        s[i] = keep * s[i] + share * d * d;
        c[i] = keep * c[i] + share * d;
        // The variance is not negative, but the rounded difference can be.
        return d / (std::sqrt(std::max(s[i] - c[i] * c[i], 0.0F)) + eps);
      });
    } else {
      update(parameters, gradients, options, [=, eps = eps_](std::int64_t i, float d) FLOODTIDE_SWEEP {
        s[i] = keep * s[i] + share * d * d;
        return d / (std::sqrt(s[i]) + eps);
      });
    }
  }
  std::vector<NamedSpan> state() override {
    std::vector<NamedSpan> parts;
    if (mean_.size() > 0) parts.push_back({"mean", mean_.span()});
    parts.push_back({"squares", squares_.span()});
    if (velocity_.size() > 0) parts.push_back({"velocity", velocity_.span()});
    return parts;
  }

 private:
  template <class Direction>
  void update(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options,
              const Direction& direction) {
    float* const p = parameters.data();
    float* const v = velocity_.data();
    const float* const g = gradients.data();
    const Gradient gradient(options, decay_);
    const auto rate = static_cast<float>(options.lr);
    const float pull = decay_.pull(options.lr), momentum = momentum_;
    const bool has_velocity = velocity_.size() > 0;
    sweep(squares_.size(), [=](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
      if (has_velocity) {
        for (std::int64_t i = begin; i < end; ++i) {
          v[i] = momentum * v[i] + direction(i, gradient(g[i], p[i]));
          p[i] -= pull * p[i] + rate * v[i];
        }
      } else {
        for (std::int64_t i = begin; i < end; ++i) p[i] -= pull * p[i] + rate * direction(i, gradient(g[i], p[i]));
      }
    });
  }

  double rho_;
  float eps_, momentum_;
  Decay decay_;
  AlignedBuffer<float> mean_, squares_, velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<RmsProp>(number(values, "rho"), static_cast<float>(number(values, "eps")),
                                   static_cast<float>(number(values, "momentum")), number(values, "centered") != 0,
                                   Decay::of(values), layout.trained_size());
}

}  // namespace floodtide::optim
