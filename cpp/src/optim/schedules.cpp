// SPDX-License-Identifier: Apache-2.0
// Registry: every schedule has one function and one row here. No other file lists them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "floodtide/optim/schedule.hpp"
#include "optim/rows.hpp"

namespace floodtide::optim {
namespace {

constexpr Limits kRate{0, 1e6};      // learning rate
constexpr Limits kUpdates{0, 1e12};  // number of updates of a training
constexpr Limits kSomeUpdates{1, 1e12};
constexpr Limits kShare{0, 1};

Course constant(const ParameterValues& /*values*/, std::int64_t /*steps*/) {
  return [](double) { return 1.0; };
}

/// decay^(step / period); with `staircase`, the exponent is rounded down.
/// Source: tf.train.exponential_decay, which google/ffn uses with staircase (learning_rate_decay_factor, decay_steps).
Course exponential(const ParameterValues& values, std::int64_t /*steps*/) {
  const double decay = number(values, "decay"), period = number(values, "period");
  const bool staircase = number(values, "staircase") != 0;
  return [=](double step) {
    const double exponent = step / period;
    return std::pow(decay, staircase ? std::floor(exponent) : exponent);
  };
}

std::vector<std::int64_t> milestones_of(const std::string& text) {
  std::vector<std::int64_t> milestones;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at < end) {
    std::int64_t milestone = 0;
    const auto [rest, error] = std::from_chars(at, end, milestone);
    const bool ascends = milestones.empty() || milestone > milestones.back();
    FLOODTIDE_REQUIRE(error == std::errc() && milestone > 0 && ascends && (rest == end || (*rest == ',' && rest + 1 < end)),
                      invalid_argument, "schedule step: milestones are '", text,
                      "', expected ascending numbers of training steps, such as 3000,6000");
    milestones.push_back(milestone);
    at = rest == end ? end : rest + 1;
  }
  return milestones;
}

/// decay^(number of milestones that the step has reached). Source: torch.optim.lr_scheduler.MultiStepLR.
Course step(const ParameterValues& values, std::int64_t /*steps*/) {
  return [milestones = milestones_of(text(values, "milestones")), decay = number(values, "decay")](double step) {
    const auto reached = [step](std::int64_t milestone) { return static_cast<double>(milestone) <= step; };
    return std::pow(decay, static_cast<double>(std::ranges::count_if(milestones, reached)));
  };
}

/// (share of the steps that remain)^power. The rate is 0 afterwards.
/// Source: Chen et al., "DeepLab", IEEE TPAMI 40, 2018, section 4.1 ("poly" policy).
Course polynomial(const ParameterValues& values, std::int64_t steps) {
  return [end = static_cast<double>(steps), power = number(values, "power")](double step) {
    return step >= end ? 0.0 : std::pow((end - step) / end, power);
  };
}

/// Half a cosine from 1 down to 0. The rate is 0 afterwards.
/// Source: Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5 with one period and no restart.
Course cosine(const ParameterValues& /*values*/, std::int64_t steps) {
  return [end = static_cast<double>(steps)](double step) {
    return step >= end ? 0.0 : 0.5 * (1.0 + std::cos(std::numbers::pi * (step / end)));
  };
}

/// Triangles between `lowest` and 1, the mode "triangular". Source: Smith, "Cyclical learning rates", WACV 2017.
Course cyclic(const ParameterValues& values, std::int64_t /*steps*/) {
  return [half = number(values, "half_cycle"), lowest = number(values, "lowest")](double step) {
    const double place = std::fmod(step / half, 2.0);  // the top is at 1
    return lowest + (1 - lowest) * (1 - std::abs(place - 1));
  };
}

ParameterSpec updates(std::string name, double standard, std::string help, Limits limits = kSomeUpdates) {
  return integer(std::move(name), standard, std::move(help), limits, "training steps");
}
ParameterSpec total_steps() { return updates("total_steps", 10'000, "training steps until the end of the schedule"); }

std::vector<ParameterSpec> with_warmup(std::vector<ParameterSpec> own) {
  own.insert(own.begin(), {real("base_lr", 1e-3, "learning rate of one walker", kRate),
                           updates("warmup_steps", 0, "length of the warm-up, in which the rate rises linearly", kUpdates),
                           choice("warmup_start", "base", "learning rate at step 0: the base rate or zero", {"base", "zero"})});
  return own;
}

}  // namespace

std::span<const ScheduleRow> schedule_rows() {
  static const ScheduleRow rows[] = {
      {"constant", &constant, with_warmup({}), "warm-up to the scaled learning rate, then constant"},
      {"exponential", &exponential,
       with_warmup({real("decay", 0.94, "factor of each period", kShare), updates("period", 1000, "length of a period"),
                    boolean("staircase", "change the rate at the ends of periods only")}),
       "warm-up, then the rate times decay^(steps / period), as tf.train.exponential_decay"},
      {"step", &step,
       with_warmup({{"milestones", ValueKind::text, std::string(), "training steps",
                     "training steps after the warm-up at which the rate falls, such as 3000,6000"},
                    real("decay", 0.1, "factor of the rate at each milestone", kShare)}),
       "warm-up, then the rate falls at milestones"},
      {"polynomial", &polynomial,
       with_warmup({total_steps(), real("power", 0.9,
                                        "exponent of the decay; 1: the learning rate falls linearly; larger: it falls faster at"
                                        " first",
                                        {.minimum = 0, .maximum = 100})}),
       "warm-up, then the rate times (share of remaining steps)^power, down to 0"},
      {"cyclic", &cyclic,
       with_warmup({updates("half_cycle", 1000, "training steps from the lowest rate to the highest"),
                    real("lowest", 0.1, "lowest rate, as a share of the highest", kShare)}),
       "warm-up, then triangles between the lowest and the scaled rate"},
      {"cosine", &cosine, with_warmup({total_steps()}), "warm-up, then half a cosine down to 0"},
  };
  return rows;
}

Schedule make_schedule(std::string_view name, const ParameterValues& given) {
  const ScheduleRow& row = find_row("schedule", schedule_rows(), name);
  const ParameterValues values = resolve(str_cat("schedule ", name), row.parameters, given);
  const auto warmup = static_cast<std::int64_t>(number(values, "warmup_steps"));
  std::int64_t steps = 0;  // after the warm-up; 0 for schedules without an end
  if (values.contains("total_steps")) {
    const auto total = static_cast<std::int64_t>(number(values, "total_steps"));
    FLOODTIDE_REQUIRE(total > warmup, invalid_argument, "schedule ", name, ": ", total,
                      " steps in all, expected more than the ", warmup, " of the warm-up");
    steps = total - warmup;
  }
  return {number(values, "base_lr"), warmup, text(values, "warmup_start") == "zero", row.make(values, steps)};
}

}  // namespace floodtide::optim
