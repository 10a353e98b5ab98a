// SPDX-License-Identifier: Apache-2.0
#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// v = momentum v + d; then p -= lr v, or with `nesterov` p -= lr (d + momentum v). d is the gradient (Gradient).
/// Source: torch.optim.SGD with momentum and no dampening.
class Momentum final : public Optimizer {
 public:
  Momentum(float momentum, bool nesterov, const Decay& decay, std::int64_t count)
      : momentum_(momentum), nesterov_(nesterov), decay_(decay), velocity_(count) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    require_sizes(velocity_.size(), parameters, gradients);
    float* const p = parameters.data();
    float* const v = velocity_.data();
    const float* const g = gradients.data();
    const Gradient gradient(options, decay_);
    const auto rate = static_cast<float>(options.lr);
    const float pull = decay_.pull(options.lr), momentum = momentum_;
    const float direct = nesterov_ ? 1.0F : 0.0F;
    const float carried = nesterov_ ? momentum : 1.0F;
    sweep(velocity_.size(), [=](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = gradient(g[i], p[i]);
        v[i] = momentum * v[i] + d;
        p[i] -= pull * p[i] + rate * (direct * d + carried * v[i]);
      }
    });
  }
  std::vector<NamedSpan> state() override { return {{"velocity", velocity_.span()}}; }

 private:
  float momentum_;
  bool nesterov_;
  Decay decay_;
  AlignedBuffer<float> velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_momentum(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<Momentum>(static_cast<float>(number(values, "momentum")), number(values, "nesterov") != 0,
                                    Decay::of(values), layout.trained_size());
}

}  // namespace floodtide::optim
