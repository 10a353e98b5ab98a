// SPDX-License-Identifier: Apache-2.0
// Registry: every optimizer, scaling rule and schedule has one row here. No other file lists them.
#include <cmath>

#include "optim/rules.hpp"

namespace floodtide::optim {
namespace {

constexpr Limits kRate{0, 1e6};                                      // learning rate
constexpr Limits kUpdates{0, 1e12};                                  // number of updates of a training
constexpr Limits kDecay{.minimum = 0, .maximum = 1, .below = true};  // decay of a moving average

ParameterSpec weight_decay() {
  return {"weight_decay", ValueKind::real, 0.0, "", "weight_decay times the parameter is added to its gradient", {0, 1e3}};
}

template <class Row>
const Row& find_row(std::string_view kind, std::span<const Row> rows, std::string_view name) {
  std::string known;
  for (const Row& row : rows) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + row.name;
  }
  raise(ErrorCode::invalid_argument, kind, ": there is no '", name, "'; expected one of: ", known);
}

}  // namespace

std::span<const OptimizerRow> optimizer_rows() {
  static const OptimizerRow rows[] = {
      {"sgd", &make_sgd, {weight_decay()}, "stochastic gradient descent"},
      {"momentum",
       &make_momentum,
       {{"momentum", ValueKind::real, 0.9, "", "share of the velocity that each update keeps", {0, 1}},
        {"nesterov", ValueKind::boolean, 0.0, "", "use Nesterov momentum"},
        weight_decay()},
       "gradient descent with momentum"},
      {"adam",
       &make_adam,
       {{"beta1", ValueKind::real, 0.9, "", "decay of the moving mean of gradients", kDecay},
        {"beta2", ValueKind::real, 0.999, "", "decay of the moving mean of squared gradients", kDecay},
        {"eps", ValueKind::real, 1e-8, "", "number added to the square root of the mean squared gradient", {0, 1}},
        weight_decay()},
       "Adam with bias correction"},
  };
  return rows;
}

std::span<const ScaleRow> scale_rows() {
  static const ScaleRow rows[] = {
      {"none", +[](std::int64_t, const ParameterValues&) { return 1.0; }, {}, "the base rate for any number of workers"},
      {"linear",
       +[](std::int64_t workers, const ParameterValues&) { return static_cast<double>(workers); },
       {},
       "the base rate times the number of workers"},
      {"sqrt",
       +[](std::int64_t workers, const ParameterValues&) { return std::sqrt(static_cast<double>(workers)); },
       {},
       "the base rate times the square root of the number of workers"},
      // Source: Dong et al. 2019, abstract and section 4.5.2: linear up to about 16 workers, then the square root.
      {"paper",
       +[](std::int64_t workers, const ParameterValues& values) {
         const auto n = static_cast<double>(workers);
         const double linear = number(values, "linear_workers");
         return n <= linear ? n : std::sqrt(linear * n);
       },
       {{"linear_workers",
         ValueKind::integer,
         16.0,
         "workers",
         "largest number of workers for which the rate grows linearly",
         {1, 1e9}}},
       "as linear up to linear_workers workers, then the base rate times the square root of (linear_workers times the number "
       "of workers)"},
  };
  return rows;
}

std::span<const ScheduleRow> schedule_rows() {
  const auto with_warmup = [](std::vector<ParameterSpec> own) {
    own.insert(own.begin(), {{"base_lr", ValueKind::real, 1e-3, "", "learning rate of one worker", kRate},
                             {"warmup_steps", ValueKind::integer, 0.0, "updates", "length of the linear warm-up", kUpdates},
                             {"warmup_start",
                              ValueKind::text,
                              std::string("base"),
                              "",
                              "learning rate at step 0: the base rate or zero",
                              {},
                              {"base", "zero"}}});
    return own;
  };
  const ParameterSpec total_steps{
      "total_steps", ValueKind::integer, 10'000.0, "updates", "updates until the learning rate is 0", {1, kUpdates.maximum}};
  static const ScheduleRow rows[] = {
      {"constant", &make_constant, with_warmup({}), "linear warm-up to the scaled learning rate, then constant"},
      {"cosine", &make_cosine, with_warmup({total_steps}),
       "linear warm-up to the scaled learning rate, then half a cosine down to 0"},
      {"polynomial", &make_polynomial,
       with_warmup({total_steps,
                    {"power",
                     ValueKind::real,
                     0.9,
                     "",
                     "exponent of the decay; 1: the learning rate falls linearly; larger: it falls faster at first",
                     {.minimum = 0, .maximum = 100}}}),
       "linear warm-up to the scaled learning rate, then that rate times (share of remaining updates)^power, down to 0"},
  };
  return rows;
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const ParameterValues& values, std::int64_t parameter_count) {
  const OptimizerRow& row = find_row("optimizer", optimizer_rows(), name);
  FLOODTIDE_REQUIRE(parameter_count >= 0, invalid_argument, "optimizer: ", parameter_count, " parameters, expected at least 0");
  return row.make(resolve(str_cat("optimizer ", name), row.parameters, values), parameter_count);
}

double scale_factor(std::string_view rule, const ParameterValues& values, std::int64_t workers) {
  const ScaleRow& row = find_row("learning-rate scale", scale_rows(), rule);
  FLOODTIDE_REQUIRE(workers >= 1, invalid_argument, "learning-rate scale: ", workers, " workers, expected at least 1");
  return row.factor(workers, resolve(str_cat("learning-rate scale ", rule), row.parameters, values));
}

std::unique_ptr<Schedule> make_schedule(std::string_view name, const ParameterValues& values, double factor) {
  const ScheduleRow& row = find_row("schedule", schedule_rows(), name);
  return row.make(resolve(str_cat("schedule ", name), row.parameters, values), factor);
}

}  // namespace floodtide::optim
