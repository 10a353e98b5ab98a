// SPDX-License-Identifier: Apache-2.0
#include "train/updates.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/base/pieces.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::train {
namespace {

/// Return the index of the first value that is not finite, or the number of values if all are.
std::int64_t first_not_finite(std::span<const float> values) {
  std::atomic<std::int64_t> first = std::ssize(values);
  for_pieces(std::ssize(values), [&](std::int64_t begin, std::int64_t end) {
    const auto piece = values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const auto found = std::ranges::find_if_not(piece, [](float x) { return std::isfinite(x); });
    if (found == piece.end()) return;
    const std::int64_t here = begin + (found - piece.begin());
    std::int64_t known = first;
    while (here < known && !first.compare_exchange_weak(known, here)) {
    }
  });
  return first;
}

/// Replace each value by keep * value + share * target.
void blend(std::span<float> values, std::span<const float> targets, float keep, float share) {
  float* const v = values.data();
  const float* const t = targets.data();
  for_pieces(std::ssize(values), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[i] = keep * v[i] + share * t[i];
  });
}

}  // namespace

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
  float* const g = gradients.data();
  for_pieces(std::ssize(gradients), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) g[i] *= factor;
  });
}

void ParameterUpdates::require_finite(std::span<const float> gradients, std::int64_t step) const {
  const std::int64_t first = first_not_finite(gradients);
  if (first == std::ssize(gradients)) return;
  const auto holds_it = [&](const ParameterLayout::Entry& entry) { return first < entry.offset + entry.size; };
  const ParameterLayout::Entry& entry = *std::ranges::find_if(layout_.entries(), holds_it);
  throw comm::AgreedError(ErrorCode::numerical,
                          str_cat("train: the averaged gradient of '", entry.name, "' is not finite at step ", step), 0);
}

void ParameterUpdates::update_statistics(std::span<const float> seen) {
  constexpr auto share = static_cast<float>(kStatisticsMomentum);
  blend(parameters_.last(seen.size()), seen, 1 - share, share);
}

// The decay is smaller in the first steps. Otherwise the average would depend on the initial parameters for 1 / (1 - decay)
// steps.
void ParameterUpdates::update_average(std::int64_t done) {
  const auto steps = static_cast<double>(done - 1);
  const auto keep = static_cast<float>(std::min(options_.average, (1 + steps) / (10 + steps)));
  blend(average_.span(), parameters_, keep, 1 - keep);
}

}  // namespace floodtide::train
