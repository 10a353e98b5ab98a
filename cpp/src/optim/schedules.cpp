// SPDX-License-Identifier: Apache-2.0
// Registry: every schedule has one row here. No other file lists them.
#include "floodtide/optim/schedule.hpp"
#include "optim/courses.hpp"
#include "optim/rows.hpp"

namespace floodtide::optim {
namespace {

constexpr Limits kRate{0, 1e6};      // learning rate
constexpr Limits kUpdates{0, 1e12};  // number of updates of a training
constexpr Limits kSomeUpdates{1, 1e12};
constexpr Limits kShare{0, 1};

ParameterSpec updates(std::string name, double standard, std::string help, Limits limits = kSomeUpdates) {
  return {std::move(name), ValueKind::integer, standard, "updates", std::move(help), limits};
}
ParameterSpec total_steps() { return updates("total_steps", 10'000, "updates until the end of the schedule"); }
ParameterSpec base_lr() { return real("base_lr", 1e-3, "learning rate of one worker", kRate); }

std::vector<ParameterSpec> with_warmup(std::vector<ParameterSpec> own) {
  own.insert(
      own.begin(),
      {base_lr(), updates("warmup_steps", 0, "length of the warm-up", kUpdates),
       choice("warmup_start", "base", "learning rate at step 0: the base rate or zero", {"base", "zero"}),
       choice("warmup_shape", "linear",
              "how the rate rises in the warm-up: linear, exponential (from the base rate), or jump (the start rate until the"
              " last step)",
              {"linear", "exponential", "jump"})});
  return own;
}

Warmup warmup_of(const ParameterValues& values, std::string_view schedule) {
  if (!values.contains("warmup_steps")) return {};
  const std::string shape = text(values, "warmup_shape");
  const Warmup warmup{.steps = whole(values, "warmup_steps"),
                      .from_zero = text(values, "warmup_start") == "zero",
                      .shape = shape == "linear"        ? Warmup::Shape::linear
                               : shape == "exponential" ? Warmup::Shape::exponential
                                                        : Warmup::Shape::jump};
  FLOODTIDE_REQUIRE(!warmup.from_zero || warmup.shape != Warmup::Shape::exponential, invalid_argument, "schedule ", schedule,
                    ": an exponential warm-up cannot start from zero, expected warmup_start 'base'");
  return warmup;
}

/// Return the steps after the warm-up; 0 for schedules without an end.
std::int64_t steps_after(const Warmup& warmup, const ParameterValues& values, std::string_view schedule) {
  if (!values.contains("total_steps")) return 0;
  const std::int64_t total = whole(values, "total_steps");
  FLOODTIDE_REQUIRE(total > warmup.steps, invalid_argument, "schedule ", schedule, ": ", total,
                    " steps in all, expected more than the ", warmup.steps, " of the warm-up");
  return total - warmup.steps;
}

}  // namespace

std::span<const ScheduleRow> schedule_rows() {
  static const ScheduleRow rows[] = {
      {"constant", &make_constant, with_warmup({}), "warm-up to the scaled learning rate, then constant"},
      {"exponential", &make_exponential,
       with_warmup({real("decay", 0.94, "factor of each period", kShare), updates("period", 1000, "length of a period"),
                    boolean("staircase", "change the rate at the ends of periods only")}),
       "warm-up, then the rate times decay^(updates / period), as tf.train.exponential_decay"},
      {"step", &make_step,
       with_warmup({{"milestones", ValueKind::text, std::string(), "updates",
                     "updates after the warm-up at which the rate falls, such as 3000,6000"},
                    real("decay", 0.1, "factor of the rate at each milestone", kShare)}),
       "warm-up, then the rate falls at milestones"},
      {"polynomial", &make_polynomial,
       with_warmup({total_steps(), real("power", 0.9,
                                        "exponent of the decay; 1: the learning rate falls linearly; larger: it falls faster at"
                                        " first",
                                        {.minimum = 0, .maximum = 100})}),
       "warm-up, then the rate times (share of remaining updates)^power, down to 0"},
      {"cosine", &make_cosine, with_warmup({total_steps()}), "warm-up, then half a cosine down to 0"},
      {"cosine_restarts", &make_cosine_restarts,
       with_warmup({updates("period", 1000, "length of the first period"),
                    real("growth", 1, "length of a period as a multiple of the period before", {1, 1e3}),
                    real("lowest", 0, "lowest rate as a share of the scaled rate", kShare)}),
       "warm-up, then half cosines that start again after each period"},
      {"one_cycle",
       &make_one_cycle,
       {base_lr(), total_steps(), real("rise", 0.3, "share of the updates in which the rate rises", kShare),
        real("first", 0.04, "first rate as a share of the scaled rate", kShare),
        real("last", 4e-6, "last rate as a share of the scaled rate", kShare),
        choice("shape", "cosine", "how the rate changes: along half cosines or lines", {"cosine", "linear"})},
       "the rate rises to the scaled rate, then falls to almost 0 (includes its own warm-up)"},
      {"cyclic", &make_cyclic,
       with_warmup(
           {updates("half_cycle", 2000, "updates from the lowest rate to the scaled rate"),
            real("lowest", 0.1, "lowest rate as a share of the scaled rate", kShare),
            choice("mode", "triangular",
                   "triangular: all cycles are equal; triangular2: each is half as high as the one before; exp_range: the"
                   " height is decay^updates",
                   {"triangular", "triangular2", "exp_range"}),
            real("decay", 0.9999, "factor of the height per update, in mode exp_range", kShare)}),
       "warm-up, then the rate rises and falls between the lowest and the scaled rate"},
      {"range_test",
       &make_range_test,
       {base_lr(), total_steps(), real("growth", 1000, "last rate as a multiple of the first one", {1, 1e12}),
        choice("shape", "exponential", "how the rate rises", {"exponential", "linear"})},
       "range test: the rate rises from the scaled rate in every update, to find the largest rate that works"},
  };
  return rows;
}

Schedule make_schedule(std::string_view name, const ParameterValues& values) {
  const ScheduleRow& row = find_row("schedule", schedule_rows(), name);
  const ParameterValues resolved = resolve(str_cat("schedule ", name), row.parameters, values);
  const Warmup warmup = warmup_of(resolved, name);
  return {number(resolved, "base_lr"), warmup, row.make(resolved, steps_after(warmup, resolved, name))};
}

}  // namespace floodtide::optim
