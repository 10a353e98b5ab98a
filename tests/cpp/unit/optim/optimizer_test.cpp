// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <cmath>
#include <limits>
#include <vector>

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

/// Return the parameters after five steps with different gradients.
std::vector<float> run(Optimizer& optimizer, int threads) {
  set_num_threads(threads);
  std::vector<float> parameters = normals(0);
  for (std::uint64_t step = 1; step <= 5; ++step) optimizer.step(parameters, normals(step), 0.01);
  return parameters;
}

/// The tests below run for every row of the registry, also for new rows.
class EveryOptimizer : public testing::TestWithParam<std::string> {};

TEST_P(EveryOptimizer, GivesTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_EQ(run(*make_optimizer(GetParam(), {}, kCount), 1), run(*make_optimizer(GetParam(), {}, kCount), 2));
}

TEST_P(EveryOptimizer, FirstStepGoesAgainstTheGradient) {
  const auto optimizer = make_optimizer(GetParam(), {}, 2);
  std::vector<float> parameters = {1, 1};
  optimizer->step(parameters, std::vector<float>{0.5F, -0.5F}, 0.1);
  EXPECT_LT(parameters[0], 1);
  EXPECT_GT(parameters[1], 1);
}

/// train::require_intact needs this order, because the checksum covers the arrays in alphabetical order.
TEST_P(EveryOptimizer, NamesItsStateInAlphabeticalOrder) {
  const auto optimizer = make_optimizer(GetParam(), {}, 2);
  const auto state = optimizer->state();
  EXPECT_TRUE(std::ranges::is_sorted(state, {}, &NamedSpan::name));
}

TEST_P(EveryOptimizer, ContinuesFromACopiedState) {
  const auto first = make_optimizer(GetParam(), {}, kCount);
  std::vector<float> parameters = normals(0);
  first->step(parameters, normals(1), 0.01);
  const auto second = make_optimizer(GetParam(), {}, kCount);
  const auto from = first->state();
  const auto to = second->state();
  ASSERT_EQ(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::visit([&](auto source) { std::ranges::copy(source, std::get<decltype(source)>(to[i].values).begin()); },
               from[i].values);
  }
  std::vector<float> copied = parameters;
  first->step(parameters, normals(2), 0.01);
  second->step(copied, normals(2), 0.01);
  EXPECT_EQ(parameters, copied);
}

TEST_P(EveryOptimizer, AllocatesNothingInAStepAndRefusesOtherSizes) {
  const auto optimizer = make_optimizer(GetParam(), {}, kCount);
  std::vector<float> parameters = normals(0);
  const std::vector<float> gradients = normals(1);
  const std::int64_t before = allocation_count();
  optimizer->step(parameters, gradients, 0.01);
  EXPECT_EQ(allocation_count(), before);
  EXPECT_THROW(optimizer->step(parameters, std::span(gradients).first(3), 0.01), Error);
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
  const auto got = run(*make_optimizer("sgd", {{"weight_decay", decay}}, kCount), 1);
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
    const auto got = run(*make_optimizer("momentum", {{"momentum", mu}, {"nesterov", nesterov ? 1.0 : 0.0}}, kCount), 1);
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
  const auto got = run(*make_optimizer("adam", {}, kCount), 1);
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

TEST(MakeOptimizer, NamesWhatIsWrong) {
  const auto message = [](std::string_view name, const ParameterValues& values) -> std::string {
    try {
      static_cast<void>(make_optimizer(name, values, 1));
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(message("lamb", {}), "optimizer: there is no 'lamb'; expected one of: sgd, momentum, adam");
  EXPECT_EQ(message("sgd", {{"beta", 1.0}}), "optimizer sgd: there is no parameter 'beta'; expected one of: weight_decay");
  EXPECT_EQ(message("sgd", {{"weight_decay", -1.0}}), "optimizer sgd: weight_decay is -1, expected 0 to 1000");
  EXPECT_EQ(message("momentum", {{"nesterov", 0.5}}), "optimizer momentum: nesterov is 0.5, expected a whole number");
  EXPECT_EQ(message("adam", {{"eps", "x"}}), "optimizer adam: eps is the text 'x', expected a number");
}

TEST(ClipEntries, LimitsBothSidesAndKeepsNan) {
  std::vector<float> gradients = {-2, -0.7F, 0.1F, 5, std::numeric_limits<float>::quiet_NaN()};
  clip_entries(gradients, 0.7F);
  EXPECT_EQ(std::vector<float>(gradients.begin(), gradients.begin() + 4), (std::vector<float>{-0.7F, -0.7F, 0.1F, 0.7F}));
  EXPECT_TRUE(std::isnan(gradients[4]));
  EXPECT_THROW(clip_entries(gradients, 0), Error);
}

}  // namespace
}  // namespace floodtide::optim
