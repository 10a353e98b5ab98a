// SPDX-License-Identifier: Apache-2.0
#include "train/local_walkers.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::train {

LocalWalkers::LocalWalkers(nn::Ffn& network, const data::ExampleSource& examples, const LocalWalkersOptions& options)
    : network_(network), examples_(examples), options_(options) {
  const flood::TrainingFloodOptions flood{network.options().fov, network.options().deltas, options.seed_pad, options.threshold};
  for (std::int64_t w = options.rank; w < options.walkers; w += options.ranks) walkers_.emplace_back(w, flood);
  for (std::size_t slot = 0; slot < walkers_.size(); ++slot) fields_.emplace_back(network.options().fov);
  prepared_.reserve(walkers_.size());
  batch_.reserve(walkers_.size());
}

void LocalWalkers::start_prefetcher() {
  std::vector<data::Cursor> cursors;
  for (const Walker& walker : walkers_) cursors.push_back(walker.next_cursor(examples_));
  prefetcher_.reset();  // the old reader ends before the new one starts
  prefetcher_ = std::make_unique<data::Prefetcher>(examples_, std::move(cursors), options_.prefetch, options_.readers);
}

std::int64_t LocalWalkers::prepare() {
  prepared_.clear();
  batch_.clear();
  for (std::size_t slot = 0; slot < walkers_.size(); ++slot) {
    if (prepare(slot)) prepared_.push_back(slot);
  }
  return std::ssize(prepared_);
}

bool LocalWalkers::prepare(std::size_t slot) {
  Walker& walker = walkers_[slot];
  Field& field = fields_[slot];
  std::optional<Box> box;
  while (!(box = walker.advance())) {
    if (options_.epochs > 0 && walker.next_cursor(examples_).epoch >= options_.epochs) {
      exhausted_ = true;
      return false;
    }
    const ScopedTimer timer(metrics_.data_s);
    walker.begin(prefetcher_->next(static_cast<std::int64_t>(slot)), options_.seed);
    ++metrics_.examples;
  }
  const ScopedTimer timer(metrics_.compute_s);
  field.box = *box;
  const bool weighted = walker.crop(*box, field.image.view(), field.logits.view(), field.labels.view(), field.weights.view());
  batch_.push_back({field.image.view(), field.logits.view(), field.logits.view(), field.labels.view(),
                    weighted ? field.weights.view() : View<float, 3>()});
  return true;
}

void LocalWalkers::compute(std::span<float> gradients, double scale, const nn::OnReady& on_ready) {
  const ScopedTimer timer(metrics_.compute_s);
  network_.loss_and_gradients(batch_, gradients, scale, on_ready);
}

void LocalWalkers::compute_each(std::span<float> out_gradients, double scale) {
  const ScopedTimer timer(metrics_.compute_s);
  network_.loss_and_each_gradients(batch_, out_gradients, scale);
}

double LocalWalkers::finish(std::int64_t step) {
  const ScopedTimer timer(metrics_.compute_s);
  double loss_sum = 0;
  for (std::size_t i = 0; i < prepared_.size(); ++i) {
    Walker& walker = walkers_[prepared_[i]];
    const Field& field = fields_[prepared_[i]];
    const double loss = batch_[i].loss;
    if (!std::isfinite(loss)) {
      raise(ErrorCode::numerical, "train: the loss is ", loss, " at step ", step, ", walker ", walker.number(), ", ",
            walker.describe(field.box, examples_));
    }
    walker.update(field.box, field.logits.view());
    count(field.labels.view(), field.logits.view());
    ++metrics_.fovs;
    metrics_.loss_sum += loss;
    loss_sum += loss;
  }
  return loss_sum;
}

void LocalWalkers::count(View<const float, 3> truth, View<const float, 3> predicted) {
  std::int64_t counts[2][2] = {};
  for (std::int64_t i = 0; i < truth.size(); ++i) ++counts[truth.data()[i] > 0.5F][predicted.data()[i] >= 0.0F];
  metrics_.true_positive += counts[1][1];
  metrics_.false_positive += counts[0][1];
  metrics_.false_negative += counts[1][0];
  metrics_.true_negative += counts[0][0];
}

}  // namespace floodtide::train
