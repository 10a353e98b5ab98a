// SPDX-License-Identifier: Apache-2.0
// Registry: every scaling rule has one row here. No other file lists them.
#include "floodtide/optim/scaling.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/optim/optimizer.hpp"
#include "optim/rows.hpp"

namespace floodtide::optim {
namespace {

constexpr const char* kNoiseScale = "noise_scale";  // of the rule auto: the noise scale, if it is known before the training

double count_of(const Workers& workers) { return static_cast<double>(workers.count); }
double examples_of(const Workers& workers) { return static_cast<double>(workers.count) * static_cast<double>(workers.batch); }

double linear(const Workers& workers, const ParameterValues& /*values*/) { return count_of(workers); }
double square_root(const Workers& workers, const ParameterValues& /*values*/) { return std::sqrt(count_of(workers)); }

/// Source: Dong et al. 2019, abstract and section 4.5.2: linear up to about 16 workers, then the square root. The paper does
/// not say at which rate the square root starts.
double paper(const Workers& workers, const ParameterValues& values) {
  const double n = count_of(workers);
  const double most = number(values, "linear_workers");
  if (n <= most) return n;
  return text(values, "anchor") == "continuous" ? std::sqrt(most * n) : std::sqrt(n);
}

/// Source: McCandlish et al., "An empirical model of large-batch training", arXiv 1812.06162, equation 2.7 for gradient
/// descent, and section 2.3 for Adam, with an exponent from 0.5 to 1. Until the noise scale is known, the base rate is used.
double automatic(const Workers& workers, const ParameterValues& values) {
  const double given = number(values, kNoiseScale);
  const double noise_scale = given > 0 ? given : workers.noise_scale.value_or(0);
  const double one = 1 + noise_scale / static_cast<double>(workers.batch);
  const double all = 1 + noise_scale / examples_of(workers);
  return std::pow(one / all, number(values, "exponent"));
}

/// Source: Malladi et al., "On the SDEs and scaling rules for adaptive gradient algorithms", NeurIPS 2022, definition 5.1. A
/// decay cannot be negative: with more workers than 1 / (1 - beta), it is 0.
ParameterValues scale_moments(ParameterValues values, const Workers& workers) {
  const double n = count_of(workers);
  for (const char* beta : {"beta1", "beta2"}) values[beta] = std::max(0.0, 1 - n * (1 - number(values, beta)));
  values["eps"] = number(values, "eps") / std::sqrt(n);
  return values;
}

}  // namespace

std::span<const ScaleRow> scale_rows() {
  static const ScaleRow rows[] = {
      {"none", +[](const Workers&, const ParameterValues&) { return 1.0; }, {}, "the base rate for any number of walkers"},
      {"linear", &linear, {}, "the base rate times the number of walkers"},
      {"sqrt", &square_root, {}, "the base rate times the square root of the number of walkers"},
      {"paper",
       &paper,
       {integer("linear_workers", 16, "largest number of walkers for which the rate grows linearly", {1, 1e9}, "walkers"),
        choice(
            "anchor", "continuous",
            "rate beyond linear_workers: continuous, the base rate times the square root of (linear_workers times the number of"
            " walkers), or base, times the square root of the number of walkers",
            {"continuous", "base"})},
       "as linear up to linear_workers walkers, then with the square root of the number of walkers"},
      {"linear_batch",
       +[](const Workers& workers, const ParameterValues&) { return examples_of(workers); },
       {},
       "the base rate times the number of examples in a training step; the base rate is that of one example"},
      {"sqrt_batch",
       +[](const Workers& workers, const ParameterValues&) { return std::sqrt(examples_of(workers)); },
       {},
       "the base rate times the square root of the number of examples in a training step"},
      {.name = "adam_sqrt",
       .factor = &square_root,
       .parameters = {},
       .help = "as sqrt; also 1 - beta1 and 1 - beta2 are multiplied by the number of walkers, and eps is divided by its "
               "square root",
       .optimizers = {"adam", "adamw"},
       .adapt = &scale_moments},
      // Source: You et al., arXiv 1708.03888: linear scaling, a warm-up, and the polynomial schedule with power 2.
      {.name = "lars", .factor = &linear, .parameters = {}, .help = "as linear, for LARS", .optimizers = {"lars"}},
      // Source: You et al., ICLR 2020, section 4.1: square root, and a linear warm-up of as many updates for any batch.
      {.name = "lamb", .factor = &square_root, .parameters = {}, .help = "as sqrt, for LAMB", .optimizers = {"lamb"}},
      {.name = "auto",
       .factor = &automatic,
       .parameters = {real("exponent", 1, "exponent of the growth: 1 for gradient descent, 0.5 to 1 for Adam", {0, 1}),
                      real(
                          kNoiseScale, 0,
                          "gradient noise scale in examples, as `floodtide lab noise` measures it; 0: the training measures it",
                          {0, 1e9})},
       .help =
           "the base rate times ((1 + B / b) / (1 + B / (b n)))^exponent, with n walkers of b examples, and the gradient noise"
           " scale B",
       .measures_noise = true},
  };
  return rows;
}

const ScaleRow& scale_row(std::string_view rule) { return find_row("learning-rate scale", scale_rows(), rule); }

Scaling::Scaling(std::string_view rule, const ParameterValues& values, const Workers& workers)
    : row_(&scale_row(rule)),
      values_(resolve(str_cat("learning-rate scale ", rule), row_->parameters, values)),
      workers_(workers) {
  FLOODTIDE_REQUIRE(workers.count >= 1 && workers.batch >= 1, invalid_argument, "learning-rate scale: ", workers.count,
                    " walkers of ", workers.batch, " examples, expected at least 1");
}

double Scaling::factor(std::optional<double> noise_scale) const {
  Workers workers = workers_;
  workers.noise_scale = noise_scale;
  return row_->factor(workers, values_);
}

bool Scaling::measures_noise() const { return row_->measures_noise && workers_.count > 1 && number(values_, kNoiseScale) == 0; }

double scale_factor(std::string_view rule, const ParameterValues& values, const Workers& workers) {
  return Scaling(rule, values, workers).factor(workers.noise_scale);
}

ParameterValues scaled_optimizer(std::string_view rule, std::string_view optimizer, const ParameterValues& values,
                                 const Workers& workers) {
  const ScaleRow& row = scale_row(rule);
  FLOODTIDE_REQUIRE(row.optimizers.empty() || std::ranges::find(row.optimizers, optimizer) != row.optimizers.end(),
                    invalid_argument, "learning-rate scale ", rule, ": is for ", row.optimizers.front(), ", not for ",
                    optimizer);
  if (row.adapt == nullptr) return values;
  const OptimizerRow& rule_row = find_row("optimizer", optimizer_rows(), optimizer);
  return row.adapt(resolve(str_cat("optimizer ", optimizer), rule_row.parameters, values), workers);
}

}  // namespace floodtide::optim
