// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optim/layers.hpp"
#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// For each layer: r = trust |p| / (|g| + decay |p|); v = momentum v + lr r (g + decay p); p -= v. g is the gradient
/// (Gradient). r is 1 if a norm is 0. Unless `layers` is "all", arrays with one axis (biases, batch normalisation) have r = 1
/// and no decay, as in the training code of the author's group. Source: You et al., "Large batch training of convolutional
/// networks", arXiv 1708.03888, algorithm 1.
class Lars final : public Optimizer {
 public:
  Lars(double momentum, double trust, double decay, bool biases, const ParameterLayout& layout)
      : momentum_(static_cast<float>(momentum)),
        trust_(trust),
        decay_(decay),
        layers_(layout, biases),
        velocity_(layout.trained_size()) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    require_sizes(velocity_.size(), parameters, gradients);
    float* const p = parameters.data();
    float* const v = velocity_.data();
    const float* const g = gradients.data();
    const Gradient gradient(options);
    layers_.sum([=](const Layers::Piece& piece) {
      Layers::Squares squares;
      run_wide(
          [=, &squares](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
            squares.parameters = square_sum_of(begin, end, [=](std::int64_t i) FLOODTIDE_SWEEP { return p[i]; });
            squares.directions =
                square_sum_of(begin, end, [=](std::int64_t i) FLOODTIDE_SWEEP { return gradient(g[i], p[i]); });
          },
          piece.begin, piece.end);
      return squares;
    });
    layers_.for_pieces([=, this](const Layers::Piece& piece) {
      const bool adapts = layers_.adapts(piece.layer);
      const auto rate = static_cast<float>(options.lr * (adapts ? ratio(layers_.squares(piece.layer)) : 1.0));
      const float decay = adapts ? static_cast<float>(decay_) : 0.0F, momentum = momentum_;
      run_wide(
          [=](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
            for (std::int64_t i = begin; i < end; ++i) {
              v[i] = momentum * v[i] + rate * (gradient(g[i], p[i]) + decay * p[i]);
              p[i] -= v[i];
            }
          },
          piece.begin, piece.end);
    });
  }
  std::vector<NamedSpan> state() override { return {{"velocity", velocity_.span()}}; }

 private:
  [[nodiscard]] double ratio(const Layers::Squares& squares) const {
    const double weights = std::sqrt(squares.parameters), gradients = std::sqrt(squares.directions);
    return weights > 0 && gradients > 0 ? trust_ * weights / (gradients + decay_ * weights) : 1.0;
  }

  float momentum_;
  double trust_, decay_;
  Layers layers_;
  AlignedBuffer<float> velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<Lars>(number(values, "momentum"), number(values, "trust"), number(values, "weight_decay"),
                                text(values, "layers") == "all", layout);
}

}  // namespace floodtide::optim
