// SPDX-License-Identifier: Apache-2.0
// Registry: every optimizer has one row here. No other file lists them. This file also has the rules that update each parameter
// from its own gradient and state.
#include <algorithm>
#include <cmath>

#include "floodtide/base/isa.hpp"
#include "optim/rows.hpp"
#include "optim/rules.hpp"
#include "optim/sweep.hpp"

namespace floodtide::optim {
namespace {

/// Weight decay and the sweep of all rules in this file: p -= lr direction, where the direction depends on the gradient d
/// (Gradient) and on the state of the parameter.
///
/// Coupled decay: weight * p is added to the gradient (L2 regularisation). Decoupled: p is multiplied by 1 - lr * weight
/// (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019). Rules without a choice decouple it.
class ElementRule : public Optimizer {
 protected:
  ElementRule(const ParameterValues& values, const ParameterLayout& layout)
      : count_(layout.trained_size()),
        weight_(number(values, "weight_decay")),
        decoupled_(!values.contains("decay") || text(values, "decay") == "decoupled") {}

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }

  /// Updates all parameters. direction(i, d) updates the state of parameter i; `rate` multiplies the direction.
  template <class Direction>
  void update(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options, double rate_of_step,
              const Direction& direction) {
    require_sizes(count_, parameters, gradients);
    float* const p = parameters.data();
    const float* const g = gradients.data();
    const Gradient gradient(options, decoupled_ ? 0.0 : weight_);
    const auto rate = static_cast<float>(rate_of_step);
    const float pull = decoupled_ ? static_cast<float>(options.lr * weight_) : 0.0F;
    sweep(count_, [=](std::int64_t begin, std::int64_t end) FLOODTIDE_SWEEP {
      for (std::int64_t i = begin; i < end; ++i) p[i] -= pull * p[i] + rate * direction(i, gradient(g[i], p[i]));
    });
  }

 private:
  std::int64_t count_;
  double weight_;
  bool decoupled_;
};

/// The direction is d. Source: torch.optim.SGD without momentum.
class Sgd final : public ElementRule {
 public:
  Sgd(const ParameterValues& values, const ParameterLayout& layout) : ElementRule(values, layout) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    update(parameters, gradients, options, options.lr, [](std::int64_t, float d) FLOODTIDE_SWEEP { return d; });
  }
  std::vector<NamedSpan> state() override { return {}; }
};

/// v = momentum v + d; the direction is v, or with `nesterov` d + momentum v.
/// Source: torch.optim.SGD with momentum and no dampening.
class Momentum final : public ElementRule {
 public:
  Momentum(const ParameterValues& values, const ParameterLayout& layout)
      : ElementRule(values, layout),
        momentum_(static_cast<float>(number(values, "momentum"))),
        nesterov_(number(values, "nesterov") != 0),
        velocity_(count()) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    const float direct = nesterov_ ? 1.0F : 0.0F, carried = nesterov_ ? momentum_ : 1.0F;
    update(parameters, gradients, options, options.lr,
           [=, v = velocity_.data(), momentum = momentum_](std::int64_t i, float d) FLOODTIDE_SWEEP {
             v[i] = momentum * v[i] + d;
             return direct * d + carried * v[i];
           });
  }
  std::vector<NamedSpan> state() override { return {{"velocity", velocity_.span()}}; }

 private:
  float momentum_;
  bool nesterov_;
  AlignedBuffer<float> velocity_;
};

/// s = s + d^2; the direction is d / (sqrt(s) + eps). s starts at initial_accumulator.
/// Source: Duchi et al., JMLR 12, 2011; torch.optim.Adagrad without lr_decay.
class Adagrad final : public ElementRule {
 public:
  Adagrad(const ParameterValues& values, const ParameterLayout& layout)
      : ElementRule(values, layout), eps_(static_cast<float>(number(values, "eps"))), sum_(count()) {
    std::ranges::fill(sum_.span(), static_cast<float>(number(values, "initial_accumulator")));
  }

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    update(parameters, gradients, options, options.lr, [s = sum_.data(), eps = eps_](std::int64_t i, float d) FLOODTIDE_SWEEP {
      s[i] += d * d;
      return d / (std::sqrt(s[i]) + eps);
    });
  }
  std::vector<NamedSpan> state() override { return {{"squares", sum_.span()}}; }

 private:
  float eps_;
  AlignedBuffer<float> sum_;
};

/// s = rho s + (1 - rho) d^2; the direction is u = sqrt(a + eps) / sqrt(s + eps) d; then a = rho a + (1 - rho) u^2.
/// Source: Zeiler, arXiv 1212.5701, algorithm 1; torch.optim.Adadelta.
class Adadelta final : public ElementRule {
 public:
  Adadelta(const ParameterValues& values, const ParameterLayout& layout)
      : ElementRule(values, layout),
        rho_(number(values, "rho")),
        eps_(static_cast<float>(number(values, "eps"))),
        squares_(count()),
        updates_(count()) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    const auto keep = static_cast<float>(rho_), share = static_cast<float>(1 - rho_);
    update(parameters, gradients, options, options.lr,
           [=, s = squares_.data(), a = updates_.data(), eps = eps_](std::int64_t i, float d) FLOODTIDE_SWEEP {
             s[i] = keep * s[i] + share * d * d;
             const float u = std::sqrt(a[i] + eps) / std::sqrt(s[i] + eps) * d;
             a[i] = keep * a[i] + share * u * u;
             return u;
           });
  }
  std::vector<NamedSpan> state() override { return {{"squares", squares_.span()}, {"updates", updates_.span()}}; }

 private:
  double rho_;
  float eps_;
  AlignedBuffer<float> squares_, updates_;
};

/// s = rho s + (1 - rho) d^2; with `centered`, c = rho c + (1 - rho) d, else c = 0; v = momentum v + d / (sqrt(s - c^2) + eps);
/// the direction is v.
/// Source: Tieleman and Hinton, lecture 6.5, 2012; Graves, arXiv 1308.0850 (centered); torch.optim.RMSprop (rho: alpha).
class RmsProp final : public ElementRule {
 public:
  RmsProp(const ParameterValues& values, const ParameterLayout& layout)
      : ElementRule(values, layout),
        rho_(number(values, "rho")),
        eps_(static_cast<float>(number(values, "eps"))),
        momentum_(static_cast<float>(number(values, "momentum"))),
        mean_(number(values, "centered") != 0 ? count() : 0),
        squares_(count()),
        velocity_(momentum_ > 0 ? count() : 0) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    const auto keep = static_cast<float>(rho_), share = static_cast<float>(1 - rho_);
    float* const s = squares_.data();
    float* const c = mean_.data();
    if (mean_.size() > 0) {
      update_along(parameters, gradients, options, [=, eps = eps_](std::int64_t i, float d) FLOODTIDE_SWEEP {
        s[i] = keep * s[i] + share * d * d;
        c[i] = keep * c[i] + share * d;
        // The variance is not negative, but the rounded difference can be.
        return d / (std::sqrt(std::max(s[i] - c[i] * c[i], 0.0F)) + eps);
      });
    } else {
      update_along(parameters, gradients, options, [=, eps = eps_](std::int64_t i, float d) FLOODTIDE_SWEEP {
        s[i] = keep * s[i] + share * d * d;
        return d / (std::sqrt(s[i]) + eps);
      });
    }
  }
  std::vector<NamedSpan> state() override {
    std::vector<NamedSpan> parts;
    if (mean_.size() > 0) parts.push_back({"mean", mean_.span()});
    parts.push_back({"squares", squares_.span()});
    if (velocity_.size() > 0) parts.push_back({"velocity", velocity_.span()});
    return parts;
  }

 private:
  template <class Direction>
  void update_along(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options,
                    const Direction& direction) {
    if (velocity_.size() == 0) return update(parameters, gradients, options, options.lr, direction);
    update(parameters, gradients, options, options.lr,
           [=, v = velocity_.data(), momentum = momentum_](std::int64_t i, float d)
               FLOODTIDE_SWEEP { return v[i] = momentum * v[i] + direction(i, d); });
  }

  double rho_;
  float eps_, momentum_;
  AlignedBuffer<float> mean_, squares_, velocity_;
};

/// m = b1 m + (1 - b1) d; v = b2 v + (1 - b2) d^2; p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps), where t counts
/// the steps from 1. Source: torch.optim.Adam and AdamW; Kingma and Ba, "Adam", ICLR 2015, algorithm 1.
class Adam final : public ElementRule {
 public:
  Adam(const ParameterValues& values, const ParameterLayout& layout)
      : ElementRule(values, layout),
        beta1_(number(values, "beta1")),
        beta2_(number(values, "beta2")),
        eps_(static_cast<float>(number(values, "eps"))),
        first_(count()),
        second_(count()),
        steps_(1) {}

  void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) override {
    require_sizes(count(), parameters, gradients);
    const auto t = static_cast<double>(++steps_[0]);
    // The root of the second moment is multiplied by the inverse of its correction: a product is faster than a division.
    const auto inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, t)));
    const auto c1 = static_cast<float>(1 - beta1_), b2 = static_cast<float>(beta2_), c2 = static_cast<float>(1 - beta2_);
    update(parameters, gradients, options, options.lr / (1 - std::pow(beta1_, t)),
           [=, m = first_.data(), v = second_.data(), eps = eps_](std::int64_t i, float d) FLOODTIDE_SWEEP {
             m[i] += c1 * (d - m[i]);
             v[i] = b2 * v[i] + c2 * d * d;
             return m[i] / (std::sqrt(v[i]) * inverse_root + eps);
           });
  }
  std::vector<NamedSpan> state() override {
    return {{"first_moment", first_.span()}, {"second_moment", second_.span()}, {"steps", steps_.span()}};
  }

 private:
  double beta1_, beta2_;
  float eps_;
  AlignedBuffer<float> first_, second_;
  AlignedBuffer<std::int64_t> steps_;
};

template <class Rule>
std::unique_ptr<Optimizer> make(const ParameterValues& values, const ParameterLayout& layout) {
  return std::make_unique<Rule>(values, layout);
}

constexpr Limits kMean{.minimum = 0, .maximum = 1, .below = true};  // decay of a moving average
constexpr Limits kEps{0, 1};
constexpr Limits kWeight{0, 1e3};
constexpr const char* kEpsHelp = "number added to the square root of the mean squared gradient";
constexpr const char* kVelocityHelp = "share of the velocity that each training step keeps";

/// Add the parameters of Decay to those of a rule.
std::vector<ParameterSpec> with_decay(std::vector<ParameterSpec> own) {
  own.push_back(real("weight_decay", 0, "weight decay: pulls each parameter towards 0", kWeight));
  own.push_back(choice("decay", "coupled",
                       "coupled: weight_decay times the parameter is added to its gradient; decoupled: the parameter is"
                       " multiplied by 1 - learning rate * weight_decay",
                       {"coupled", "decoupled"}));
  return own;
}

std::vector<ParameterSpec> moments(double eps) {
  return {real("beta1", 0.9, "decay of the moving mean of gradients", kMean),
          real("beta2", 0.999, "decay of the moving mean of squared gradients", kMean), real("eps", eps, kEpsHelp, kEps)};
}

std::vector<ParameterSpec> joined(std::vector<ParameterSpec> own, const std::vector<ParameterSpec>& others) {
  own.insert(own.end(), others.begin(), others.end());
  return own;
}

ParameterSpec layers() {
  return choice("layers", "weights",
                "which arrays have a rate of their layer and weight decay: weights (not biases and batch normalisation) or all",
                {"weights", "all"});
}

}  // namespace

std::span<const OptimizerRow> optimizer_rows() {
  static const OptimizerRow rows[] = {
      {"sgd", &make<Sgd>, with_decay({}), "stochastic gradient descent"},
      {"momentum", &make<Momentum>,
       with_decay({real("momentum", 0.9, kVelocityHelp, {0, 1}), boolean("nesterov", "use Nesterov momentum")}),
       "gradient descent with momentum"},
      {"adagrad", &make<Adagrad>,
       with_decay(
           {real("initial_accumulator", 0, "start of the sum of squared gradients; TensorFlow's default is 0.1", {0, 1e6}),
            real("eps", 1e-10, "number added to the square root of the sum of squared gradients", kEps)}),
       "Adagrad: rates fall with the sum of squared gradients"},
      {"adadelta", &make<Adadelta>,
       with_decay({real("rho", 0.9, "decay of the moving means of squares", kMean),
                   real("eps", 1e-6, "number added to both mean squares", kEps)}),
       "Adadelta; its usual learning rate is 1"},
      {"rmsprop", &make<RmsProp>,
       with_decay({real("rho", 0.99, "decay of the moving mean of squared gradients (alpha in PyTorch)", kMean),
                   real("eps", 1e-8, kEpsHelp, kEps), real("momentum", 0, kVelocityHelp, {0, 1}),
                   boolean("centered", "subtract the squared mean gradient from the mean squared gradient")}),
       "RMSprop"},
      {"adam", &make<Adam>, with_decay(moments(1e-8)), "Adam with bias correction"},
      {"adamw", &make<Adam>, joined(moments(1e-8), {real("weight_decay", 0.01, "decoupled weight decay", kWeight)}),
       "Adam with decoupled weight decay"},
      {"lars",
       &make_lars,
       {real("momentum", 0.9, kVelocityHelp, {0, 1}),
        real("trust", 0.001, "rate of a layer: trust times the norm of its weights over that of its gradients", {0, 1e3}),
        real("weight_decay", 0, "weight_decay times the parameter is added to its gradient", kWeight), layers()},
       "momentum with a rate for each layer, for large batches"},
      {"lamb", &make_lamb,
       joined(moments(1e-6), {real("weight_decay", 0.01, "weight decay, part of the update", kWeight), layers()}),
       "Adam with a rate for each layer, for large batches"},
  };
  return rows;
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const ParameterValues& values, const ParameterLayout& layout) {
  static_cast<void>(active_isa());  // read on this thread, not first on the threads of a step; may throw
  const OptimizerRow& row = find_row("optimizer", optimizer_rows(), name);
  return row.make(resolve(str_cat("optimizer ", name), row.parameters, values), layout);
}

}  // namespace floodtide::optim
