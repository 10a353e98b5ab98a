// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/isa_scope.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::optim {
namespace {

constexpr std::int64_t kCount = 100'003;  // several pieces and a remainder

std::vector<float> normals(std::uint64_t stream, std::int64_t count = kCount) {
  Philox random(3, stream);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

/// A layout of one array with one axis.
ParameterLayout flat(std::int64_t count) {
  ParameterLayout layout;
  layout.add("parameters", {count});
  return layout;
}

/// A layout of weights and biases, in several pieces.
ParameterLayout layers() {
  ParameterLayout layout;
  layout.add("a/weights", {3, 3, 3, 20, 100});
  layout.add("a/biases", {100});
  layout.add("b/weights", {kCount - 54'100 - 3, 1});
  layout.add("b/biases", {3});
  return layout;
}

/// Return the parameters after five steps with different gradients.
std::vector<float> run(Optimizer& optimizer, int threads) {
  set_num_threads(threads);
  std::vector<float> parameters = normals(0);
  for (std::uint64_t step = 1; step <= 5; ++step) optimizer.step(parameters, normals(step), {0.01});
  return parameters;
}

/// The tests below run for every row of the registry, also for new rows.
class EveryOptimizer : public testing::TestWithParam<std::string> {};

TEST_P(EveryOptimizer, GivesTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_EQ(run(*make_optimizer(GetParam(), {}, layers()), 1), run(*make_optimizer(GetParam(), {}, layers()), 2));
}

/// Otherwise ranks on different processors would have different parameters.
TEST_P(EveryOptimizer, GivesTheSameBitsWithAnyInstructionSet) {
  const auto with = [&](Isa level) {
    const IsaScope scope(level);
    return run(*make_optimizer(GetParam(), {}, layers()), 1);
  };
  const std::vector<float> generic = with(Isa::generic);
  for (const Isa level : {Isa::avx2, Isa::avx512}) {
    if (level <= processor_isa()) {
      EXPECT_EQ(with(level), generic) << name(level);
    }
  }
}

TEST_P(EveryOptimizer, FirstStepGoesAgainstTheGradient) {
  const auto optimizer = make_optimizer(GetParam(), {}, flat(2));
  std::vector<float> parameters = {1, 1};
  optimizer->step(parameters, std::vector<float>{0.5F, -0.5F}, {0.1});
  EXPECT_LT(parameters[0], 1);
  EXPECT_GT(parameters[1], 1);
}

/// The checksum of a checkpoint covers the arrays in this order.
TEST_P(EveryOptimizer, NamesItsStateInAlphabeticalOrder) {
  const auto optimizer = make_optimizer(GetParam(), {}, flat(2));
  const auto state = optimizer->state();
  EXPECT_TRUE(std::ranges::is_sorted(state, {}, &NamedSpan::name));
}

TEST_P(EveryOptimizer, ContinuesFromACopiedState) {
  const auto first = make_optimizer(GetParam(), {}, layers());
  std::vector<float> parameters = normals(0);
  first->step(parameters, normals(1), {0.01});
  const auto second = make_optimizer(GetParam(), {}, layers());
  const auto from = first->state();
  const auto to = second->state();
  ASSERT_EQ(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::visit([&](auto source) { std::ranges::copy(source, std::get<decltype(source)>(to[i].values).begin()); },
               from[i].values);
  }
  std::vector<float> copied = parameters;
  first->step(parameters, normals(2), {0.01});
  second->step(copied, normals(2), {0.01});
  EXPECT_EQ(parameters, copied);
}

TEST_P(EveryOptimizer, AllocatesNothingInAStepAndRefusesOtherSizes) {
  const auto optimizer = make_optimizer(GetParam(), {}, layers());
  std::vector<float> parameters = normals(0);
  const std::vector<float> gradients = normals(1);
  const std::int64_t before = allocation_count();
  optimizer->step(parameters, gradients, {0.01});
  EXPECT_EQ(allocation_count(), before);
  EXPECT_THROW(optimizer->step(parameters, std::span(gradients).first(3), {0.01}), Error);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const OptimizerRow& row : optimizer_rows()) all.push_back(row.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Rows, EveryOptimizer, testing::ValuesIn(names()), [](const auto& row) { return row.param; });

/// Compares parameters with the formulas of the papers, computed in double. The rounding error of a step is a few units in the
/// last place.
void expect_near_reference(const std::vector<float>& got, const std::vector<double>& expected) {
  const double tolerance = 5 * 4 * std::numeric_limits<float>::epsilon();  // five steps of up to four roundings
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
}

TEST(Sgd, FollowsItsFormula) {
  const double decay = 0.1, lr = 0.01;
  const auto got = run(*make_optimizer("sgd", {{"weight_decay", decay}}, layers()), 1);
  const auto start = normals(0);
  std::vector<double> expected(start.begin(), start.end());
  for (std::uint64_t step = 1; step <= 5; ++step) {
    const auto g = normals(step);
    for (std::size_t i = 0; i < g.size(); ++i) expected[i] -= lr * (g[i] + decay * expected[i]);
  }
  expect_near_reference(got, expected);
}

TEST(Momentum, FollowsItsFormulaWithAndWithoutNesterov) {
  for (const bool nesterov : {false, true}) {
    const double mu = 0.8, lr = 0.01;
    const auto got = run(*make_optimizer("momentum", {{"momentum", mu}, {"nesterov", nesterov ? 1.0 : 0.0}}, layers()), 1);
    const auto start = normals(0);
    std::vector<double> expected(start.begin(), start.end()), velocity(start.size(), 0);
    for (std::uint64_t step = 1; step <= 5; ++step) {
      const auto g = normals(step);
      for (std::size_t i = 0; i < g.size(); ++i) {
        velocity[i] = mu * velocity[i] + g[i];
        expected[i] -= lr * (nesterov ? g[i] + mu * velocity[i] : velocity[i]);
      }
    }
    expect_near_reference(got, expected);
  }
}

TEST(Adam, FollowsItsFormula) {
  const double b1 = 0.9, b2 = 0.999, eps = 1e-8, lr = 0.01;
  const auto got = run(*make_optimizer("adam", {}, layers()), 1);
  const auto start = normals(0);
  std::vector<double> expected(start.begin(), start.end()), m(start.size(), 0), v(start.size(), 0);
  for (std::uint64_t step = 1; step <= 5; ++step) {
    const auto g = normals(step);
    const auto t = static_cast<double>(step);
    for (std::size_t i = 0; i < g.size(); ++i) {
      m[i] = b1 * m[i] + (1 - b1) * g[i];
      v[i] = b2 * v[i] + (1 - b2) * static_cast<double>(g[i]) * g[i];
      expected[i] -= lr * (m[i] / (1 - std::pow(b1, t))) / (std::sqrt(v[i] / (1 - std::pow(b2, t))) + eps);
    }
  }
  expect_near_reference(got, expected);
}

/// Runs five steps of a rule in double. `rule(parameter, gradient, state)` returns the new parameter; the state is six numbers.
std::vector<double> reference(const std::function<double(double, double, std::array<double, 6>&)>& rule) {
  const auto start = normals(0);
  std::vector<double> expected(start.begin(), start.end());
  std::vector<std::array<double, 6>> states(start.size());
  for (std::uint64_t step = 1; step <= 5; ++step) {
    const auto g = normals(step);
    for (std::size_t i = 0; i < g.size(); ++i) expected[i] = rule(expected[i], g[i], states[i]);
  }
  return expected;
}

TEST(Adagrad, FollowsItsFormula) {
  expect_near_reference(run(*make_optimizer("adagrad", {{"initial_accumulator", 0.1}}, layers()), 1),
                        reference([](double p, double g, auto& s) {
                          s[0] += g * g;
                          return p - 0.01 * g / (std::sqrt(0.1 + s[0]) + 1e-10);
                        }));
}

TEST(Adadelta, FollowsItsFormula) {
  expect_near_reference(run(*make_optimizer("adadelta", {}, layers()), 1), reference([](double p, double g, auto& s) {
                          s[0] = 0.9 * s[0] + 0.1 * g * g;
                          const double u = std::sqrt(s[1] + 1e-6) / std::sqrt(s[0] + 1e-6) * g;
                          s[1] = 0.9 * s[1] + 0.1 * u * u;
                          return p - 0.01 * u;
                        }));
}

TEST(RmsProp, FollowsItsFormula) {
  for (const bool centered : {false, true}) {
    for (const double momentum : {0.0, 0.5}) {
      const auto got = run(
          *make_optimizer("rmsprop", {{"rho", 0.9}, {"momentum", momentum}, {"centered", centered ? 1.0 : 0.0}, {"eps", 1e-3}},
                          layers()),
          1);
      expect_near_reference(got, reference([&](double p, double g, auto& s) {
                              s[0] = 0.9 * s[0] + 0.1 * g * g;
                              s[1] = centered ? 0.9 * s[1] + 0.1 * g : 0;
                              s[2] = momentum * s[2] + g / (std::sqrt(s[0] - s[1] * s[1]) + 1e-3);
                              return p - 0.01 * s[2];
                            }));
    }
  }
}

TEST(DecoupledDecay, ShrinksParametersAndLeavesTheGradientAlone) {
  expect_near_reference(run(*make_optimizer("sgd", {{"weight_decay", 0.5}, {"decay", "decoupled"}}, layers()), 1),
                        reference([](double p, double g, auto&) { return p * (1 - 0.01 * 0.5) - 0.01 * g; }));
  const ParameterValues decoupled{{"weight_decay", 0.5}, {"decay", "decoupled"}};
  EXPECT_EQ(run(*make_optimizer("adamw", {{"weight_decay", 0.5}}, layers()), 1),
            run(*make_optimizer("adam", decoupled, layers()), 1));
}

/// Runs five steps of a rule with rates of layers in double. `direction(i, g)` returns the update of a parameter before its
/// rate.
std::vector<double> layer_reference(bool all, const std::function<double(double parameters, double directions)>& ratio,
                                    const std::function<double(std::size_t, double g, double decay_p)>& direction, double decay,
                                    double momentum) {
  const ParameterLayout layout = layers();
  const auto start = normals(0);
  std::vector<double> p(start.begin(), start.end()), velocity(p.size()), u(p.size());
  for (std::uint64_t step = 1; step <= 5; ++step) {
    const auto g = normals(step);
    for (const ParameterLayout::Entry& entry : layout.entries()) {
      const bool adapts = all || entry.shape.size() > 1;
      double parameters = 0, directions = 0;
      const auto begin = static_cast<std::size_t>(entry.offset), end = static_cast<std::size_t>(entry.offset + entry.size);
      for (std::size_t i = begin; i < end; ++i) {
        u[i] = direction(i, g[i], adapts ? decay * p[i] : 0);
        parameters += p[i] * p[i];
        directions += momentum > 0 ? double{g[i]} * g[i] : u[i] * u[i];
      }
      const double rate = 0.01 * (adapts ? ratio(std::sqrt(parameters), std::sqrt(directions)) : 1);
      for (std::size_t i = begin; i < end; ++i) {
        velocity[i] = momentum * velocity[i] + rate * u[i];
        p[i] -= velocity[i];
      }
    }
  }
  return p;
}

TEST(Lars, FollowsThePublishedFormula) {
  for (const bool all : {false, true}) {
    const auto got =
        run(*make_optimizer("lars", {{"trust", 0.5}, {"weight_decay", 0.1}, {"layers", all ? "all" : "weights"}}, layers()), 1);
    expect_near_reference(got,
                          layer_reference(
                              all, [](double weights, double gradients) { return 0.5 * weights / (gradients + 0.1 * weights); },
                              [](std::size_t, double g, double decay_p) { return g + decay_p; }, 0.1, 0.9));
  }
}

TEST(Lamb, FollowsThePublishedFormula) {
  for (const bool all : {false, true}) {
    const auto got = run(*make_optimizer("lamb", {{"weight_decay", 0.1}, {"layers", all ? "all" : "weights"}}, layers()), 1);
    std::vector<double> m(kCount), v(kCount), t(kCount);
    expect_near_reference(
        got, layer_reference(
                 all, [](double weights, double directions) { return weights / directions; },
                 [&](std::size_t i, double g, double decay_p) {
                   ++t[i];
                   m[i] = 0.9 * m[i] + 0.1 * g;
                   v[i] = 0.999 * v[i] + 0.001 * g * g;
                   return m[i] / (1 - std::pow(0.9, t[i])) / (std::sqrt(v[i] / (1 - std::pow(0.999, t[i]))) + 1e-6) + decay_p;
                 },
                 0.1, 0));
  }
}

TEST(LayerRates, AreOneWhereANormIsZero) {
  for (const char* name : {"lars", "lamb"}) {
    ParameterLayout layout;
    layout.add("weights", {2, 1});
    const auto optimizer = make_optimizer(name, {{"weight_decay", 0.0}}, layout);
    std::vector<float> parameters = {0, 0};
    optimizer->step(parameters, std::vector<float>{0, 0}, {0.5});
    EXPECT_EQ(parameters, (std::vector<float>{0, 0})) << name;
    optimizer->step(parameters, std::vector<float>{1, -1}, {0.5});
    EXPECT_LT(parameters[0], 0) << name;
    EXPECT_GT(parameters[1], 0) << name;
  }
}

TEST_P(EveryOptimizer, ScalesAndClipsGradientsInTheSameSweep) {
  const auto fused = make_optimizer(GetParam(), {}, layers());
  const auto separate = make_optimizer(GetParam(), {}, layers());
  std::vector<float> one = normals(0), other = normals(0);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    std::vector<float> gradients = normals(step);
    fused->step(one, gradients, {.lr = 0.01, .gradient_factor = 2, .clip = 0.7});
    for (float& gradient : gradients) gradient = std::clamp(2 * gradient, -0.7F, 0.7F);
    separate->step(other, gradients, {.lr = 0.01});
  }
  EXPECT_EQ(one, other);
}

TEST(MakeOptimizer, NamesWhatIsWrong) {
  const auto message = [](std::string_view name, const ParameterValues& values) -> std::string {
    try {
      static_cast<void>(make_optimizer(name, values, flat(1)));
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(message("lion", {}).substr(0, 65), "optimizer: there is no 'lion'; expected one of: sgd, momentum, ad");
  EXPECT_EQ(message("sgd", {{"beta", 1.0}}),
            "optimizer sgd: there is no parameter 'beta'; expected one of: weight_decay, decay");
  EXPECT_EQ(message("sgd", {{"weight_decay", -1.0}}), "optimizer sgd: weight_decay is -1, expected 0 to 1000");
  EXPECT_EQ(message("momentum", {{"nesterov", 0.5}}), "optimizer momentum: nesterov is 0.5, expected a whole number");
  EXPECT_EQ(message("adam", {{"eps", "x"}}), "optimizer adam: eps is the text 'x', expected a number");
}

}  // namespace
}  // namespace floodtide::optim
