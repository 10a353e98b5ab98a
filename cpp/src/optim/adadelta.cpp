// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// s = rho s + (1 - rho) d^2; u = sqrt(a + eps) / sqrt(s + eps) d; a = rho a + (1 - rho) u^2; p -= lr u.
/// d is the gradient (Gradient). Source: Zeiler, arXiv 1212.5701, algorithm 1; torch.optim.Adadelta.
class Adadelta final : public Optimizer {
 public:
  Adadelta(double rho, float eps, const Decay& decay, std::int64_t count)
      : rho_(rho), eps_(eps), decay_(decay), squares_(count), updates_(count) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    require_sizes(squares_.size(), parameters, gradients);
    float* const p = parameters.data();
    float* const s = squares_.data();
    float* const a = updates_.data();
    const float* const g = gradients.data();
    const Gradient gradient(options, decay_);
    const auto rate = static_cast<float>(options.lr);
    const auto keep = static_cast<float>(rho_), share = static_cast<float>(1 - rho_);
    const float pull = decay_.pull(options.lr), eps = eps_;
    sweep(squares_.size(), [=](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = gradient(g[i], p[i]);
        s[i] = keep * s[i] + share * d * d;
        const float u = std::sqrt(a[i] + eps) / std::sqrt(s[i] + eps) * d;
        a[i] = keep * a[i] + share * u * u;
        p[i] -= pull * p[i] + rate * u;
      }
    });
  }
  std::vector<NamedSpan> state() override { return {{"squares", squares_.span()}, {"updates", updates_.span()}}; }

 private:
  double rho_;
  float eps_;
  Decay decay_;
  AlignedBuffer<float> squares_, updates_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adadelta(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<Adadelta>(number(values, "rho"), static_cast<float>(number(values, "eps")), Decay::of(values),
                                    layout.trained_size());
}

}  // namespace floodtide::optim
