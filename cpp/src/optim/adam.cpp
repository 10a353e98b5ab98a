// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "floodtide/base/memory.hpp"
#include "optim/rules.hpp"

namespace floodtide::optim {
namespace {

/// d = g + weight_decay p; m = b1 m + (1 - b1) d; v = b2 v + (1 - b2) d^2;
/// p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps), where t counts the steps from 1.
/// Source: torch.optim.Adam; Kingma and Ba, "Adam", ICLR 2015, algorithm 1.
class Adam final : public Optimizer {
 public:
  Adam(double beta1, double beta2, double eps, double weight_decay, std::int64_t parameter_count)
      : beta1_(beta1),
        beta2_(beta2),
        eps_(eps),
        weight_decay_(weight_decay),
        first_(parameter_count),
        second_(parameter_count),
        steps_(1) {}

  void step(std::span<float> parameters, std::span<const float> gradients, double lr) override {
    require_sizes(first_.size(), parameters, gradients);
    const auto t = static_cast<double>(++steps_[0]);
    const auto rate = static_cast<float>(lr / (1 - std::pow(beta1_, t)));
    const auto root = static_cast<float>(std::sqrt(1 - std::pow(beta2_, t)));
    const auto b1 = static_cast<float>(1 - beta1_);
    const auto b2 = static_cast<float>(beta2_);
    const auto c2 = static_cast<float>(1 - beta2_);
    const auto eps = static_cast<float>(eps_);
    const auto decay = static_cast<float>(weight_decay_);
    float* const p = parameters.data();
    float* const m = first_.data();
    float* const v = second_.data();
    const float* const g = gradients.data();
    for_pieces(first_.size(), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = g[i] + decay * p[i];
        m[i] += b1 * (d - m[i]);
        v[i] = b2 * v[i] + c2 * d * d;
        p[i] -= rate * (m[i] / (std::sqrt(v[i]) / root + eps));
      }
    });
  }
  std::vector<NamedSpan> state() override {
    return {{"first_moment", first_.span()}, {"second_moment", second_.span()}, {"steps", steps_.span()}};
  }

 private:
  double beta1_, beta2_, eps_, weight_decay_;
  AlignedBuffer<float> first_, second_;
  AlignedBuffer<std::int64_t> steps_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const ParameterValues& values, std::int64_t parameter_count) {
  return std::make_unique<Adam>(number(values, "beta1"), number(values, "beta2"), number(values, "eps"),
                                number(values, "weight_decay"), parameter_count);
}

}  // namespace floodtide::optim
