// SPDX-License-Identifier: Apache-2.0
#include "train/updates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::train {

ParameterUpdates::ParameterUpdates(std::span<float> parameters, const ParameterLayout& layout,
                                   std::unique_ptr<optim::Optimizer> optimizer, std::unique_ptr<optim::Schedule> schedule,
                                   std::int64_t examples, const TrainerOptions& options)
    : parameters_(parameters),
      layout_(layout),
      optimizer_(std::move(optimizer)),
      schedule_(std::move(schedule)),
      examples_(examples),
      options_(options),
      average_(options.average > 0 ? layout.size() : 0) {}

void ParameterUpdates::update(std::span<float> message, std::int64_t step) {
  const std::span<float> gradients = message.subspan(kFlags);
  weigh(gradients, message[kExamples]);
  require_finite(gradients, step);
  const auto trained = static_cast<std::size_t>(layout_.trained_size());
  optim::clip_entries(gradients.first(trained), static_cast<float>(options_.clip));
  optimizer_->step(parameters_.first(trained), gradients.first(trained), rate(step));
  update_statistics(gradients.subspan(trained));
  update_average(step + 1);
}

bool ParameterUpdates::meet_after(std::int64_t steps) const {
  return steps >= options_.steps || (options_.meet_every > 0 && steps % options_.meet_every == 0);
}

void ParameterUpdates::weigh(std::span<float> gradients, double examples) const {
  const auto wanted = static_cast<double>(examples_);
  if (examples == wanted) return;
  const auto factor = static_cast<float>(wanted / examples);
  for (float& gradient : gradients) gradient *= factor;
}

void ParameterUpdates::require_finite(std::span<const float> gradients, std::int64_t step) const {
  for (const ParameterLayout::Entry& entry : layout_.entries()) {
    if (std::ranges::all_of(part(gradients, entry), [](float x) { return std::isfinite(x); })) continue;
    throw comm::AgreedError(ErrorCode::numerical,
                            str_cat("train: the averaged gradient of '", entry.name, "' is not finite at step ", step), 0);
  }
}

void ParameterUpdates::update_statistics(std::span<const float> seen) {
  const std::span<float> moving = parameters_.last(seen.size());
  constexpr auto share = static_cast<float>(kStatisticsMomentum);
  for (std::size_t i = 0; i < seen.size(); ++i) moving[i] = (1 - share) * moving[i] + share * seen[i];
}

// The first steps count more: an average that remembers the initial parameters for 1 / (1 - decay) steps is of no use.
void ParameterUpdates::update_average(std::int64_t done) {
  const auto steps = static_cast<double>(done - 1);
  const auto keep = static_cast<float>(std::min(options_.average, (1 + steps) / (10 + steps)));
  for (std::size_t i = 0; i < average_.span().size(); ++i) {
    average_.span()[i] = keep * average_.span()[i] + (1 - keep) * parameters_[i];
  }
}

}  // namespace floodtide::train
