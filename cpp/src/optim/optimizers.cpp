// SPDX-License-Identifier: Apache-2.0
// Registry: every optimizer has one row here. No other file lists them.
#include "floodtide/base/isa.hpp"
#include "optim/rows.hpp"
#include "optim/rules.hpp"

namespace floodtide::optim {
namespace {

constexpr Limits kMean{.minimum = 0, .maximum = 1, .below = true};  // decay of a moving average
constexpr Limits kEps{0, 1};
constexpr Limits kWeight{0, 1e3};
constexpr const char* kEpsHelp = "number added to the square root of the mean squared gradient";
constexpr const char* kVelocityHelp = "share of the velocity that each update keeps";

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
      {"sgd", &make_sgd, with_decay({}), "stochastic gradient descent"},
      {"momentum", &make_momentum,
       with_decay({real("momentum", 0.9, kVelocityHelp, {0, 1}), boolean("nesterov", "use Nesterov momentum")}),
       "gradient descent with momentum"},
      {"adagrad", &make_adagrad,
       with_decay(
           {real("initial_accumulator", 0, "start of the sum of squared gradients; TensorFlow's default is 0.1", {0, 1e6}),
            real("eps", 1e-10, "number added to the square root of the sum of squared gradients", kEps)}),
       "Adagrad: rates fall with the sum of squared gradients"},
      {"adadelta", &make_adadelta,
       with_decay({real("rho", 0.9, "decay of the moving means of squares", kMean),
                   real("eps", 1e-6, "number added to both mean squares", kEps)}),
       "Adadelta; its usual learning rate is 1"},
      {"rmsprop", &make_rmsprop,
       with_decay({real("rho", 0.99, "decay of the moving mean of squared gradients (alpha in PyTorch)", kMean),
                   real("eps", 1e-8, kEpsHelp, kEps), real("momentum", 0, kVelocityHelp, {0, 1}),
                   boolean("centered", "subtract the squared mean gradient from the mean squared gradient")}),
       "RMSprop"},
      {"adam", &make_adam, with_decay(moments(1e-8)), "Adam with bias correction"},
      {"adamw", &make_adamw, joined(moments(1e-8), {real("weight_decay", 0.01, "decoupled weight decay", kWeight)}),
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
