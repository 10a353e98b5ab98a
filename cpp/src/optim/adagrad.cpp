// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// s = s + d^2; p -= lr d / (sqrt(s) + eps). d is the gradient (Gradient); s starts at initial_accumulator.
/// Source: Duchi et al., JMLR 12, 2011; torch.optim.Adagrad without lr_decay.
class Adagrad final : public Optimizer {
 public:
  Adagrad(double initial, float eps, const Decay& decay, std::int64_t count) : eps_(eps), decay_(decay), sum_(count) {
    std::ranges::fill(sum_.span(), static_cast<float>(initial));
  }

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    require_sizes(sum_.size(), parameters, gradients);
    float* const p = parameters.data();
    float* const s = sum_.data();
    const float* const g = gradients.data();
    const Gradient gradient(options, decay_);
    const auto rate = static_cast<float>(options.lr);
    const float pull = decay_.pull(options.lr), eps = eps_;
    sweep(sum_.size(), [=](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = gradient(g[i], p[i]);
        s[i] += d * d;
        p[i] -= pull * p[i] + rate * (d / (std::sqrt(s[i]) + eps));
      }
    });
  }
  std::vector<NamedSpan> state() override { return {{"squares", sum_.span()}}; }

 private:
  float eps_;
  Decay decay_;
  AlignedBuffer<float> sum_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adagrad(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<Adagrad>(number(values, "initial_accumulator"), static_cast<float>(number(values, "eps")),
                                   Decay::of(values), layout.trained_size());
}

}  // namespace floodtide::optim
