// SPDX-License-Identifier: Apache-2.0
#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// p -= lr d, with the gradient d (Gradient) and weight decay. Source: torch.optim.SGD without momentum.
class Sgd final : public Optimizer {
 public:
  Sgd(const Decay& decay, std::int64_t count) : decay_(decay), count_(count) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    require_sizes(count_, parameters, gradients);
    float* const p = parameters.data();
    const float* const g = gradients.data();
    const Gradient gradient(options, decay_);
    const auto rate = static_cast<float>(options.lr);
    const float pull = decay_.pull(options.lr);
    sweep(count_, [=](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
      for (std::int64_t i = begin; i < end; ++i) p[i] -= pull * p[i] + rate * gradient(g[i], p[i]);
    });
  }
  std::vector<NamedSpan> state() override { return {}; }

 private:
  Decay decay_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<Sgd>(Decay::of(values), layout.trained_size());
}

}  // namespace floodtide::optim
