// SPDX-License-Identifier: Apache-2.0
#include "train/updates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/base/pieces.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::train {
namespace {

/// Replace each value by keep * value + share * factor * target.
void blend(std::span<float> values, std::span<const float> targets, float keep, float share, float factor = 1) {
  float* const v = values.data();
  const float* const t = targets.data();
  for_pieces(std::ssize(values), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[i] = keep * v[i] + share * (factor * t[i]);
  });
}

}  // namespace

ParameterUpdates::ParameterUpdates(std::span<float> parameters, const ParameterLayout& layout,
                                   std::unique_ptr<optim::Optimizer> optimizer, optim::Schedule schedule,
                                   const optim::Scaling& scaling, std::int64_t examples, const TrainerOptions& options)
    : parameters_(parameters),
      layout_(layout),
      optimizer_(std::move(optimizer)),
      schedule_(std::move(schedule)),
      scaling_(scaling),
      square_sum_(layout.size()),
      examples_(examples),
      options_(options),
      average_(options.average > 0 ? layout.size() : 0) {}

void ParameterUpdates::update(std::span<float> message, std::int64_t step) {
  const std::span<float> gradients = message.subspan(kFlags);
  const auto trained = gradients.first(static_cast<std::size_t>(layout_.trained_size()));
  const auto statistics = gradients.subspan(trained.size());
  const double square = square_sum_(trained);
  if (!std::isfinite(square + square_sum_(statistics))) raise_not_finite(gradients, step);
  // If some examples are missing, the others get more weight.
  const double factor = static_cast<double>(examples_) / message[kExamples];
  gradient_norm_ = factor * std::sqrt(square);
  optim::StepOptions how{.lr = rate(step), .gradient_factor = factor, .clip = options_.clip};
  if (options_.clip_norm > 0) how.gradient_factor *= optim::norm_factor(gradient_norm_, options_.clip_norm);
  optimizer_->step(parameters_.first(trained.size()), trained, how);
  update_statistics(statistics, factor);
  measure_noise(factor);
  update_average(step + 1);
}

bool ParameterUpdates::meet_after(std::int64_t steps) const {
  return steps >= options_.steps || (options_.meet_every > 0 && steps % options_.meet_every == 0);
}

std::optional<double> ParameterUpdates::known_noise_scale() const noexcept {
  const auto estimate = noise_scale_.estimate();
  return estimate ? std::optional(estimate->examples) : std::nullopt;
}

void ParameterUpdates::raise_not_finite(std::span<const float> gradients, std::int64_t step) const {
  const auto found = std::ranges::find_if_not(gradients, [](float value) { return std::isfinite(value); });
  const std::int64_t first = found - gradients.begin();
  const auto holds_it = [&](const ParameterLayout::Entry& entry) { return first < entry.offset + entry.size; };
  const ParameterLayout::Entry& entry = *std::ranges::find_if(layout_.entries(), holds_it);
  throw comm::AgreedError(ErrorCode::numerical,
                          str_cat("train: the averaged gradient of '", entry.name, "' is not finite at step ", step), 0);
}

// A step with missing examples is left out, because its batches have other sizes.
void ParameterUpdates::measure_noise(double factor) {
  if (small_batches_ && factor == 1) {
    noise_scale_.add(
        {small_batches_->square, small_batches_->inverse, gradient_norm_ * gradient_norm_, 1 / static_cast<double>(examples_)});
  }
  small_batches_.reset();
}

void ParameterUpdates::update_statistics(std::span<const float> seen, double factor) {
  constexpr auto share = static_cast<float>(kStatisticsMomentum);
  blend(parameters_.last(seen.size()), seen, 1 - share, share, static_cast<float>(factor));
}

// The decay is smaller in the first steps. Otherwise the average would depend on the initial parameters for 1 / (1 - decay)
// steps.
void ParameterUpdates::update_average(std::int64_t done) {
  const auto steps = static_cast<double>(done - 1);
  const double decay = pace_.per_step == 1 ? options_.average : std::pow(options_.average, pace_.per_step);
  const auto keep = static_cast<float>(std::min(decay, (1 + steps) / (10 + steps)));
  blend(average_.span(), parameters_, keep, 1 - keep);
}

}  // namespace floodtide::train
