// SPDX-License-Identifier: Apache-2.0
#include "optim/rules.hpp"

namespace floodtide::optim {
namespace {

/// p -= lr (g + weight_decay p). Source: torch.optim.SGD without momentum.
class Sgd final : public Optimizer {
 public:
  Sgd(float weight_decay, std::int64_t parameter_count) : weight_decay_(weight_decay), count_(parameter_count) {}

  void step(std::span<float> parameters, std::span<const float> gradients, double lr) override {
    require_sizes(count_, parameters, gradients);
    float* const p = parameters.data();
    const float* const g = gradients.data();
    const auto rate = static_cast<float>(lr);
    const float decay = weight_decay_;
    for_pieces(count_, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) p[i] -= rate * (g[i] + decay * p[i]);
    });
  }
  std::vector<NamedSpan> state() override { return {}; }

 private:
  float weight_decay_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const ParameterValues& values, std::int64_t parameter_count) {
  return std::make_unique<Sgd>(static_cast<float>(number(values, "weight_decay")), parameter_count);
}

}  // namespace floodtide::optim
