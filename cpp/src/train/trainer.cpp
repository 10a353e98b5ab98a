// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/comm/collectives.hpp"
#include "train/checkpoint.hpp"
#include "train/walker.hpp"

namespace floodtide::train {
namespace {

// What travels behind the gradients in the same message: the number of ranks that failed, and one number a request.
constexpr std::size_t kFailed = 0;
constexpr std::uint32_t kRequests[] = {kLog, kCheckpoint, kStop};
constexpr std::size_t kFlags = 1 + std::size(kRequests);

/// A walker's next field of view.
struct Field {
  explicit Field(const Vec3& fov) : image(fov), logits(fov), labels(fov), weights(fov) {}
  Box box{};
  Tensor<float, 3> image, logits, labels, weights;
};

std::vector<Walker> make_walkers(const comm::Communicator& communicator, const TrainerOptions& options,
                                 const flood::TrainingFloodOptions& flood) {
  std::vector<Walker> walkers;
  for (std::int64_t w = communicator.rank(); w < options.walkers; w += communicator.size()) walkers.emplace_back(w, flood);
  return walkers;
}

}  // namespace

std::uint64_t parameter_hash(std::span<const float> parameters) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const std::byte byte : std::as_bytes(parameters)) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001B3ULL;
  }
  return hash;
}

struct Trainer::Impl {
  nn::Ffn& network;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
  const data::ExampleSource& examples;
  comm::Communicator& communicator;
  TrainerOptions options;
  std::vector<Walker> walkers;  // of this rank, ascending
  std::unique_ptr<data::Prefetcher> prefetcher;
  AlignedBuffer<float> message;       // gradients in the layout's order, then the flags
  AlignedBuffer<float> average;       // of the parameters; empty without
  std::vector<Field> fields;          // a field of view for each walker of this rank
  std::vector<nn::FfnExample> batch;  // of the fields
  std::int64_t step = 0;
  Metrics metrics;

  Impl(nn::Ffn& net, std::unique_ptr<optim::Optimizer> opt, std::unique_ptr<optim::Schedule> rates,
       const data::ExampleSource& source, comm::Communicator& ranks, const TrainerOptions& trainer_options)
      : network(net),
        optimizer(std::move(opt)),
        schedule(std::move(rates)),
        examples(source),
        communicator(ranks),
        options(trainer_options),
        walkers(make_walkers(ranks, trainer_options,
                             {net.options().fov, net.options().deltas, trainer_options.seed_pad, trainer_options.threshold})),
        message(net.layout().size() + static_cast<std::int64_t>(kFlags)),
        average(trainer_options.average > 0 ? net.layout().size() : 0),
        batch(walkers.size()) {
    for (std::size_t slot = 0; slot < walkers.size(); ++slot) fields.emplace_back(net.options().fov);
  }

  std::span<float> gradients() { return message.span().first(static_cast<std::size_t>(network.layout().size())); }
  std::span<float> flags() { return message.span().last(kFlags); }

  [[nodiscard]] CheckpointState state() { return {network, average.span(), *optimizer, step, options.seed, options.walkers}; }

  // The first steps count more: an average that remembers the initial parameters for 1 / (1 - decay) steps is of no use.
  void update_average() {
    const auto done = static_cast<double>(step);
    const auto keep = static_cast<float>(std::min(options.average, (1 + done) / (10 + done)));
    const std::span<const float> parameters = network.parameters();
    for (std::size_t i = 0; i < average.span().size(); ++i) {
      average.span()[i] = keep * average.span()[i] + (1 - keep) * parameters[i];
    }
  }

  void start_prefetcher() {
    std::vector<data::Cursor> cursors;
    for (const Walker& walker : walkers) cursors.push_back(walker.next_cursor(examples));
    prefetcher.reset();  // the old reader ends before the new one starts
    prefetcher = std::make_unique<data::Prefetcher>(examples, std::move(cursors), options.prefetch);
  }

  // Cuts out the walker's next field of view.
  void prepare(std::size_t slot) {
    Walker& walker = walkers[slot];
    Field& field = fields[slot];
    std::optional<Box> box;
    while (!(box = walker.advance())) {
      const ScopedTimer timer(metrics.data_s);
      walker.begin(prefetcher->next(static_cast<std::int64_t>(slot)), options.seed);
      ++metrics.examples;
    }
    const ScopedTimer timer(metrics.compute_s);
    field.box = *box;
    const bool weighted = walker.crop(*box, field.image.view(), field.logits.view(), field.labels.view(), field.weights.view());
    batch[slot] = {field.image.view(), field.logits.view(), field.logits.view(), field.labels.view(),
                   weighted ? field.weights.view() : View<float, 3>()};
  }

  // Updates the walker's canvas; returns the loss.
  double finish(std::size_t slot) {
    Walker& walker = walkers[slot];
    const Field& field = fields[slot];
    const double loss = batch[slot].loss;
    if (!std::isfinite(loss)) {
      raise(ErrorCode::numerical, "train: the loss is ", loss, " at step ", step, ", walker ", walker.number(), ", ",
            walker.describe(field.box, examples));
    }
    walker.update(field.box, field.logits.view());
    count(field.labels.view(), field.logits.view());
    ++metrics.fovs;
    metrics.loss_sum += loss;
    return loss;
  }

  // Forward and backward of the next field of view of every walker; the gradients are added to the message.
  double run_walkers() {
    for (std::size_t slot = 0; slot < walkers.size(); ++slot) prepare(slot);
    const ScopedTimer timer(metrics.compute_s);
    network.loss_and_gradients(batch, gradients(), 1.0 / static_cast<double>(options.walkers));
    double loss_sum = 0;
    for (std::size_t slot = 0; slot < walkers.size(); ++slot) loss_sum += finish(slot);
    return loss_sum;
  }

  void count(View<const float, 3> truth, View<const float, 3> predicted) {
    std::int64_t counts[2][2] = {};
    for (std::int64_t i = 0; i < truth.size(); ++i) ++counts[truth.data()[i] > 0.5F][predicted.data()[i] >= 0.0F];
    metrics.true_positive += counts[1][1];
    metrics.false_positive += counts[0][1];
    metrics.false_negative += counts[1][0];
    metrics.true_negative += counts[0][0];
  }

  void require_finite_gradients() {
    for (const ParameterLayout::Entry& entry : network.layout().entries()) {
      const auto values = part(gradients(), entry);
      if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); })) {
        throw comm::AgreedError(ErrorCode::numerical,
                                str_cat("train: the averaged gradient of '", entry.name, "' is not finite at step ", step), 0);
      }
    }
  }
};

Trainer::Trainer(nn::Ffn& network, std::unique_ptr<optim::Optimizer> optimizer, std::unique_ptr<optim::Schedule> schedule,
                 const data::ExampleSource& examples, comm::Communicator& communicator, const TrainerOptions& options) {
  std::exception_ptr failure;
  try {
    FLOODTIDE_REQUIRE(options.walkers >= communicator.size(), invalid_argument, "train: ", options.walkers, " walkers for ",
                      communicator.size(), " ranks, expected at least one a rank");
    FLOODTIDE_REQUIRE(options.clip > 0, invalid_argument, "train: clip is ", options.clip, ", expected a positive number");
    FLOODTIDE_REQUIRE(options.average >= 0 && options.average < 1, invalid_argument, "train: average is ", options.average,
                      ", expected at least 0 and below 1");
    FLOODTIDE_REQUIRE(options.prefetch >= 1, invalid_argument, "train: prefetch is ", options.prefetch,
                      ", expected at least 1");
    impl_ = std::make_unique<Impl>(network, std::move(optimizer), std::move(schedule), examples, communicator, options);
  } catch (...) {
    failure = std::current_exception();
  }
  comm::agree(communicator, failure);
  comm::broadcast(communicator, std::as_writable_bytes(network.parameters()), 0);
  network.parameters_changed();
  if (!impl_->average.span().empty()) std::ranges::copy(network.parameters(), impl_->average.span().begin());
  check_replicas();
  impl_->start_prefetcher();
}

Trainer::~Trainer() = default;

StepReport Trainer::step(std::uint32_t requests) {
  Impl& t = *impl_;
  std::exception_ptr failure;
  double loss_sum = 0;
  std::ranges::fill(t.message.span(), 0.0F);
  try {
    loss_sum = t.run_walkers();
    for (std::size_t i = 0; i < std::size(kRequests); ++i) t.flags()[1 + i] = (requests & kRequests[i]) != 0 ? 1.0F : 0.0F;
  } catch (...) {
    // The other ranks are on their way into the allreduce: this one joins them, tells, and all fail together.
    failure = std::current_exception();
    std::ranges::fill(t.message.span(), 0.0F);
    t.flags()[kFailed] = 1.0F;
  }
  {
    const ScopedTimer timer(t.metrics.reduce_s);
    comm::allreduce(t.communicator, t.message.span(), comm::ReduceOp::sum, t.options.algorithm);
  }
  if (t.flags()[kFailed] > 0) comm::agree(t.communicator, failure);

  const ScopedTimer timer(t.metrics.update_s);
  t.require_finite_gradients();  // all ranks hold the same sums, so all throw or none
  StepReport report;
  report.step = t.step;
  report.loss = loss_sum / static_cast<double>(t.walkers.size());
  report.lr = t.schedule->at(t.step);
  for (std::size_t i = 0; i < std::size(kRequests); ++i) {
    if (t.flags()[1 + i] > 0) report.requests |= kRequests[i];
  }
  optim::clip_entries(t.gradients(), static_cast<float>(t.options.clip));
  t.optimizer->step(t.network.parameters(), t.gradients(), report.lr);
  t.network.parameters_changed();
  t.update_average();
  ++t.step;
  return report;
}

std::int64_t Trainer::steps_done() const noexcept { return impl_->step; }

void Trainer::copy_average(nn::Ffn& network) const {
  const std::span<const float> average = impl_->average.span();
  FLOODTIDE_REQUIRE(!average.empty(), invalid_argument, "copy_average: this trainer keeps no average");
  FLOODTIDE_REQUIRE(average.size() == network.parameters().size(), shape_mismatch, "copy_average: the network has ",
                    network.parameters().size(), " parameters, expected ", average.size());
  std::ranges::copy(average, network.parameters().begin());
  network.parameters_changed();
}

Metrics Trainer::take_metrics() {
  Metrics sum = std::exchange(impl_->metrics, {});
  std::int64_t counts[] = {sum.fovs,           sum.examples,       sum.true_positive,
                           sum.false_positive, sum.false_negative, sum.true_negative};
  double sums[] = {sum.loss_sum, sum.data_s, sum.compute_s, sum.reduce_s, sum.update_s};
  comm::allreduce(impl_->communicator, std::span<std::int64_t>(counts), comm::ReduceOp::sum, impl_->options.algorithm);
  comm::allreduce(impl_->communicator, std::span<double>(sums), comm::ReduceOp::sum, impl_->options.algorithm);
  return {counts[0], counts[1], counts[2], counts[3], counts[4], counts[5], sums[0], sums[1], sums[2], sums[3], sums[4]};
}

void Trainer::save(const std::string& path, const std::string& configuration) {
  Impl& t = *impl_;
  save_checkpoint(path, configuration, t.state(), t.walkers, t.communicator);
}

void Trainer::load(const std::string& path) {
  Impl& t = *impl_;
  std::exception_ptr failure;
  try {
    t.step = load_checkpoint(path, t.state(), t.walkers, t.examples);
    t.network.parameters_changed();
  } catch (...) {
    failure = std::current_exception();
  }
  comm::agree(t.communicator, failure);
  check_replicas();
  t.start_prefetcher();
}

void Trainer::check_replicas() {
  const std::uint64_t hash = parameter_hash(impl_->network.parameters());
  const auto hashes = comm::allgather(impl_->communicator, std::as_bytes(std::span(&hash, 1)));
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    throw comm::AgreedError(ErrorCode::communication,
                            str_cat("train: rank ", rank, " holds other parameters than rank 0 after step ", impl_->step),
                            static_cast<int>(rank));
  }
}

}  // namespace floodtide::train
