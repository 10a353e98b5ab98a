// SPDX-License-Identifier: Apache-2.0
// Optimizers that have a rate for each layer: lars and lamb.
#include <algorithm>
#include <cmath>
#include <vector>

#include "floodtide/base/parallel.hpp"
#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// The trained arrays of a layout, cut into pieces for all threads. The pieces do not depend on the number of threads.
class Layers {
 public:
  struct Piece {
    std::int64_t begin, end;  // in the buffer of parameters
    std::size_t layer;        // index of its array
  };
  /// Sums of squares of two quantities.
  struct Squares {
    double parameters = 0, directions = 0;
  };

  /// @param biases false: arrays with one axis (biases, batch normalisation) have no rate and no weight decay of a layer
  Layers(const ParameterLayout& layout, bool biases);

  /// Return whether the array has a rate and a weight decay of its layer.
  [[nodiscard]] bool adapts(std::size_t layer) const noexcept { return adapts_[layer] != 0; }

  /// Calls squares(piece) for each piece on all threads, then adds the results of each array in a fixed order.
  template <class Function>
  void sum(const Function& squares) {
    Squares* const sums = of_pieces_.data();
    parallel_for(std::ssize(pieces_), [&](std::int64_t i) { sums[i] = squares(pieces_[static_cast<std::size_t>(i)]); });
    add_up();
  }
  /// Return the result of sum() for an array.
  [[nodiscard]] const Squares& squares(std::size_t layer) const noexcept { return of_layers_[layer]; }

  /// Calls body(piece) for each piece on all threads.
  template <class Body>
  void for_pieces(const Body& body) const {
    parallel_for(std::ssize(pieces_), [&](std::int64_t i) { body(pieces_[static_cast<std::size_t>(i)]); });
  }

 private:
  void add_up() noexcept;

  std::vector<Piece> pieces_;  // in ascending order
  std::vector<Squares> of_pieces_, of_layers_;
  std::vector<char> adapts_;
};

Layers::Layers(const ParameterLayout& layout, bool biases) {
  constexpr std::int64_t kPiece = 1 << 14;
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    if (entry.offset >= layout.trained_size()) break;
    const std::int64_t end = entry.offset + entry.size;
    for (std::int64_t begin = entry.offset; begin < end; begin += kPiece) {
      pieces_.push_back({begin, std::min(begin + kPiece, end), adapts_.size()});
    }
    adapts_.push_back(biases || entry.shape.size() > 1 ? 1 : 0);
  }
  of_pieces_.resize(pieces_.size());
  of_layers_.resize(adapts_.size());
}

void Layers::add_up() noexcept {
  std::ranges::fill(of_layers_, Squares{});
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    Squares& sum = of_layers_[pieces_[i].layer];
    sum.parameters += of_pieces_[i].parameters;
    sum.directions += of_pieces_[i].directions;
  }
}

/// For each layer: r = trust |p| / (|g| + decay |p|); v = momentum v + lr r (g + decay p); p -= v. g is the gradient
/// (Gradient). r is 1 if a norm is 0. Unless `layers` is "all", arrays with one axis (biases, batch normalisation) have r = 1
/// and no decay, as in the training code of the author's group. Source: You et al., "Large batch training of convolutional
/// networks", arXiv 1708.03888, algorithm 1.
class Lars final : public Optimizer {
 public:
  Lars(const ParameterValues& values, const ParameterLayout& layout)
      : momentum_(static_cast<float>(number(values, "momentum"))),
        trust_(number(values, "trust")),
        decay_(number(values, "weight_decay")),
        layers_(layout, text(values, "layers") == "all"),
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

/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + decay p;
/// for each layer: p -= lr |p| / |u| u. g is the gradient (Gradient), and t counts the steps from 1. The ratio of norms is 1 if
/// a norm is 0. Unless `layers` is "all", arrays with one axis (biases, batch normalisation) have a ratio of 1 and no decay, as
/// in the authors' code. Source: You et al., "Large batch optimization for deep learning", ICLR 2020, algorithm 2 with phi(x) =
/// x.
class Lamb final : public Optimizer {
 public:
  Lamb(const ParameterValues& values, const ParameterLayout& layout)
      : beta1_(number(values, "beta1")),
        beta2_(number(values, "beta2")),
        eps_(number(values, "eps")),
        decay_(number(values, "weight_decay")),
        layers_(layout, text(values, "layers") == "all"),
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

std::unique_ptr<Optimizer> make_lars(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<Lars>(values, layout);
}

std::unique_ptr<Optimizer> make_lamb(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<Lamb>(values, layout);
}

}  // namespace floodtide::optim
