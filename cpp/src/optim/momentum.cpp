// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/memory.hpp"
#include "optim/rules.hpp"

namespace floodtide::optim {
namespace {

/// d = g + weight_decay p; v = momentum v + d; then p -= lr v, or with `nesterov` p -= lr (d + momentum v).
/// Source: torch.optim.SGD with momentum and no dampening.
class Momentum final : public Optimizer {
 public:
  Momentum(float momentum, bool nesterov, float weight_decay, std::int64_t parameter_count)
      : momentum_(momentum), nesterov_(nesterov), weight_decay_(weight_decay), velocity_(parameter_count) {}

  void step(std::span<float> parameters, std::span<const float> gradients, double lr) override {
    require_sizes(velocity_.size(), parameters, gradients);
    float* const p = parameters.data();
    float* const v = velocity_.data();
    const float* const g = gradients.data();
    const auto rate = static_cast<float>(lr);
    const float momentum = momentum_, decay = weight_decay_;
    const float direct = nesterov_ ? 1.0F : 0.0F;
    const float carried = nesterov_ ? momentum : 1.0F;
    for_pieces(velocity_.size(), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = g[i] + decay * p[i];
        v[i] = momentum * v[i] + d;
        p[i] -= rate * (direct * d + carried * v[i]);
      }
    });
  }
  std::vector<NamedSpan> state() override { return {{"velocity", velocity_.span()}}; }

 private:
  float momentum_;
  bool nesterov_;
  float weight_decay_;
  AlignedBuffer<float> velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_momentum(const ParameterValues& values, std::int64_t parameter_count) {
  return std::make_unique<Momentum>(static_cast<float>(number(values, "momentum")), number(values, "nesterov") != 0,
                                    static_cast<float>(number(values, "weight_decay")), parameter_count);
}

}  // namespace floodtide::optim
