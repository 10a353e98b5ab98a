// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/optimizer.hpp"

#include <algorithm>
#include <span>
#include <variant>
#include <vector>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/pieces.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::bench {
namespace {

constexpr std::int64_t kOthers = 32 << 20;  // floats: more than the caches of a processor hold
constexpr std::int64_t kChannels = 32;

ParameterLayout layout_of(std::int64_t parameters) {
  FLOODTIDE_REQUIRE(parameters >= 1, invalid_argument, "bench optimizer: ", parameters, " parameters, expected at least 1");
  ParameterLayout layout;
  if (parameters >= kChannels) layout.add("weights", {parameters / kChannels, kChannels});
  if (parameters % kChannels != 0) layout.add("biases", {parameters % kChannels});
  return layout;
}

void negate(std::span<float> values) {
  float* const v = values.data();
  for_pieces(std::ssize(values), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[i] = -v[i];
  });
}

void read(std::span<const float> values) {
  for_pieces(std::ssize(values), [=](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kFloatsPerLine = 16;
    const volatile float* const v = values.data();
    for (std::int64_t i = begin; i < end; i += kFloatsPerLine) static_cast<void>(v[i]);
  });
}

}  // namespace

OptimizerPasses::OptimizerPasses(const std::string& name, std::int64_t parameters)
    : optimizer_(optim::make_optimizer(name, {}, layout_of(parameters))),
      parameters_(parameters),
      gradients_(parameters),
      others_(kOthers) {
  Philox random(1, 0);
  for (float& value : parameters_.span()) value = static_cast<float>(random.normal());
  for (float& value : gradients_.span()) value = static_cast<float>(random.normal());
}

void OptimizerPasses::evict() { negate(others_.span()); }

double OptimizerPasses::step() {
  evict();
  const double start_s = now_s();
  optimizer_->step(parameters_.span(), gradients_.span(), {.lr = 1e-3, .clip = 0.7});
  return now_s() - start_s;
}

double OptimizerPasses::sweep() {
  evict();
  const std::vector<optim::NamedSpan> state = optimizer_->state();
  double seconds = 0;
  for (int sign = 0; sign < 2; ++sign) {  // twice, so that the values stay as they are
    if (sign == 1) evict();
    const double start_s = now_s();
    negate(parameters_.span());
    for (const optim::NamedSpan& part : state) {
      if (const auto* values = std::get_if<std::span<float>>(&part.values)) negate(*values);
    }
    read(gradients_.span());
    seconds += (now_s() - start_s) / 2;
  }
  return seconds;
}

}  // namespace floodtide::bench
