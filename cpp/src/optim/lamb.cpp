// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optim/layers.hpp"
#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + decay p;
/// for each layer: p -= lr |p| / |u| u. g is the gradient (Gradient), and t counts the steps from 1. The ratio of norms is 1 if
/// a norm is 0. Unless `layers` is "all", arrays with one axis (biases, batch normalisation) have a ratio of 1 and no decay, as
/// in the authors' code. Source: You et al., "Large batch optimization for deep learning", ICLR 2020, algorithm 2 with phi(x) =
/// x.
class Lamb final : public Optimizer {
 public:
  Lamb(double beta1, double beta2, double eps, double decay, bool biases, const ParameterLayout& layout)
      : beta1_(beta1),
        beta2_(beta2),
        eps_(eps),
        decay_(decay),
        layers_(layout, biases),
        first_(layout.trained_size()),
        second_(layout.trained_size()),
        steps_(1) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    require_sizes(first_.size(), parameters, gradients);
    const auto t = static_cast<double>(++steps_[0]);
    float* const p = parameters.data();
    float* const m = first_.data();
    float* const v = second_.data();
    const float* const g = gradients.data();
    const auto c1 = static_cast<float>(1 - beta1_), b2 = static_cast<float>(beta2_), c2 = static_cast<float>(1 - beta2_);
    const auto inverse = static_cast<float>(1 / (1 - std::pow(beta1_, t)));
    const auto inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, t)));
    const auto eps = static_cast<float>(eps_);
    const Gradient gradient(options);
    // The direction is computed twice, so that it needs no memory.
    const auto direction = [=](std::int64_t i, float decay) FLOODTIDE_SWEEP {
      return inverse * m[i] / (std::sqrt(v[i]) * inverse_root + eps) + decay * p[i];
    };
    layers_.sum([=, this](const Layers::Piece& piece) {
      const float decay = decay_of(piece);
      Layers::Squares squares;
      run_wide(
          [=, &squares](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
            for (std::int64_t i = begin; i < end; ++i) {
              const float d = gradient(g[i], p[i]);
              m[i] += c1 * (d - m[i]);
              v[i] = b2 * v[i] + c2 * d * d;
            }
            squares.parameters = square_sum_of(begin, end, [=](std::int64_t i) FLOODTIDE_SWEEP { return p[i]; });
            squares.directions = square_sum_of(begin, end, [=](std::int64_t i) FLOODTIDE_SWEEP { return direction(i, decay); });
          },
          piece.begin, piece.end);
      return squares;
    });
    layers_.for_pieces([=, this](const Layers::Piece& piece) {
      const float decay = decay_of(piece);
      const double ratio = layers_.adapts(piece.layer) ? ratio_of(layers_.squares(piece.layer)) : 1.0;
      const auto rate = static_cast<float>(options.lr * ratio);
      run_wide(
          [=](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
            for (std::int64_t i = begin; i < end; ++i) p[i] -= rate * direction(i, decay);
          },
          piece.begin, piece.end);
    });
  }
  std::vector<NamedSpan> state() override {
    return {{"first_moment", first_.span()}, {"second_moment", second_.span()}, {"steps", steps_.span()}};
  }

 private:
  [[nodiscard]] float decay_of(const Layers::Piece& piece) const {
    return layers_.adapts(piece.layer) ? static_cast<float>(decay_) : 0.0F;
  }
  static double ratio_of(const Layers::Squares& squares) {
    return squares.parameters > 0 && squares.directions > 0 ? std::sqrt(squares.parameters / squares.directions) : 1.0;
  }

  double beta1_, beta2_, eps_, decay_;
  Layers layers_;
  AlignedBuffer<float> first_, second_;
  AlignedBuffer<std::int64_t> steps_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<Lamb>(number(values, "beta1"), number(values, "beta2"), number(values, "eps"),
                                number(values, "weight_decay"), text(values, "layers") == "all", layout);
}

}  // namespace floodtide::optim
