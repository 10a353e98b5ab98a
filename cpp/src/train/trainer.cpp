// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/timeline.hpp"
#include "floodtide/comm/clock_offset.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/exact_sum.hpp"
#include "floodtide/comm/watchdog.hpp"
#include "train/checkpoint.hpp"
#include "train/local_walkers.hpp"

namespace floodtide::train {
namespace {

// What travels with the gradients: how many fields of view they are from, whether this rank failed, and one number a request.
constexpr std::size_t kFovs = 0;
constexpr std::size_t kFailed = 1;
constexpr std::size_t kFirstRequest = 2;
constexpr std::uint32_t kRequests[] = {kLog, kCheckpoint, kStop};
constexpr std::size_t kFlags = 16;  // a cache line, so that the gradients behind them are aligned
static_assert(kFirstRequest + std::size(kRequests) <= kFlags);

/// The message's parts: flags, then the parameters' gradients. The flags lie in front because backward finishes the first
/// layers last: what is at the end of the message can leave first.
std::vector<Range> message_parts(const ParameterLayout& layout) {
  std::vector<Range> parts = {{0, static_cast<std::int64_t>(kFlags)}};
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    const std::int64_t begin = parts.back().end;
    parts.push_back({begin, begin + entry.size});
  }
  return parts;
}

std::vector<Range> gradient_parts(const ParameterLayout& layout) {
  std::vector<Range> parts;
  for (const ParameterLayout::Entry& entry : layout.entries()) parts.push_back({entry.offset, entry.offset + entry.size});
  return parts;
}

LocalWalkersOptions local_options(const TrainerOptions& options, const comm::Communicator& communicator) {
  return {.walkers = options.walkers,
          .rank = communicator.rank(),
          .ranks = communicator.size(),
          .seed = options.seed,
          .seed_pad = options.seed_pad,
          .threshold = options.threshold,
          .prefetch = options.prefetch,
          .epochs = options.on_exhausted == OnExhausted::cycle ? 0 : options.epochs};
}

void check(const TrainerOptions& options, const comm::Communicator& communicator) {
  FLOODTIDE_REQUIRE(options.walkers >= communicator.size(), invalid_argument, "train: ", options.walkers, " walkers for ",
                    communicator.size(), " ranks, expected at least one a rank");
  FLOODTIDE_REQUIRE(options.clip > 0, invalid_argument, "train: clip is ", options.clip, ", expected a positive number");
  FLOODTIDE_REQUIRE(options.average >= 0 && options.average < 1, invalid_argument, "train: average is ", options.average,
                    ", expected at least 0 and below 1");
  FLOODTIDE_REQUIRE(options.prefetch >= 1, invalid_argument, "train: prefetch is ", options.prefetch, ", expected at least 1");
  FLOODTIDE_REQUIRE(options.accumulate >= 1, invalid_argument, "train: accumulate is ", options.accumulate,
                    ", expected at least 1");
  FLOODTIDE_REQUIRE(options.epochs >= 1, invalid_argument, "train: epochs is ", options.epochs, ", expected at least 1");
  if (options.algorithm != comm::kAutoAllreduce) static_cast<void>(comm::AllreduceTable::parse(options.algorithm));
  FLOODTIDE_REQUIRE(options.timeout_s >= 0, invalid_argument, "train: timeout_s is ", options.timeout_s,
                    ", expected a positive number, or 0 for no watchdog");
}

}  // namespace

std::uint64_t parameter_hash(std::span<const float> parameters) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const std::byte byte : std::as_bytes(parameters)) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001B3ULL;
  }
  return hash;
}

Exactness exactness_named(std::string_view name) {
  if (name == "run") return Exactness::run;
  if (name == "workers") return Exactness::workers;
  raise(ErrorCode::invalid_argument, "exactness is '", name, "', expected run or workers");
}

OnExhausted on_exhausted_named(std::string_view name) {
  if (name == "cycle") return OnExhausted::cycle;
  if (name == "join") return OnExhausted::join;
  if (name == "stop") return OnExhausted::stop;
  raise(ErrorCode::invalid_argument, "on_exhausted is '", name, "', expected cycle, join or stop");
}

struct Trainer::Impl {
  nn::Ffn& network;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
  const data::ExampleSource& examples;
  comm::Communicator& communicator;
  TrainerOptions options;
  LocalWalkers walkers;
  Timeline timeline;
  AlignedBuffer<float> message;  // see message_parts
  AlignedBuffer<float> average;  // of the parameters; empty without
  AlignedBuffer<float> each;     // gradients of each walker of this rank; for Exactness::workers
  std::int64_t step = 0;
  // Exactly one of them sums the gradients.
  std::optional<comm::Reducer> reducer;
  std::optional<comm::ExactSum> exact_sum;
  std::optional<comm::Watchdog> watchdog;  // last, so that its thread ends first

  Impl(nn::Ffn& net, std::unique_ptr<optim::Optimizer> opt, std::unique_ptr<optim::Schedule> rates,
       const data::ExampleSource& source, comm::Communicator& ranks, const TrainerOptions& trainer_options)
      : network(net),
        optimizer(std::move(opt)),
        schedule(std::move(rates)),
        examples(source),
        communicator(ranks),
        options(trainer_options),
        walkers(net, source, local_options(trainer_options, ranks)),
        message(static_cast<std::int64_t>(kFlags) + net.layout().size()),
        average(trainer_options.average > 0 ? net.layout().size() : 0) {
    if (options.exactness == Exactness::workers) {
      each = AlignedBuffer<float>(std::ssize(walkers.walkers()) * options.accumulate * net.layout().size());
    }
  }

  // Collective.
  void connect() {
    if (options.exactness == Exactness::workers) {
      exact_sum.emplace(communicator, gradient_parts(network.layout()), options.walkers * options.accumulate,
                        options.algorithm);
    } else {
      reducer.emplace(communicator, message.span(), message_parts(network.layout()),
                      comm::ReducerOptions{options.bucket_bytes, options.algorithm, options.wire}, &timeline);
    }
    if (options.timeout_s > 0) {
      watchdog.emplace(communicator, timeline, comm::WatchdogOptions{options.timeout_s, options.report, options.record_path});
    }
  }

  std::span<float> gradients() { return message.span().subspan(kFlags); }
  std::span<float> flags() { return message.span().first(kFlags); }

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

  /// What a rank has done in a step.
  struct Local {
    double loss_sum = 0;
    std::int64_t fovs = 0;
  };

  // Forward and backward of the next fields of view of this rank's walkers.
  Local run_walkers() {
    const double scale = 1.0 / static_cast<double>(options.walkers * options.accumulate);
    const auto parameters = static_cast<std::size_t>(network.layout().size());
    Local local;
    for (int round = 0; round < options.accumulate; ++round) {
      std::int64_t fovs = 0;
      {
        const ScopedEvent event(&timeline, {"data", "step", step});
        fovs = walkers.prepare();
      }
      const ScopedEvent event(&timeline, {"compute", "step", step});
      if (exact_sum) {
        walkers.compute_each(
            each.span().subspan(static_cast<std::size_t>(local.fovs) * parameters, static_cast<std::size_t>(fovs) * parameters),
            scale);
      } else if (round + 1 < options.accumulate) {
        walkers.compute(gradients(), scale, {});
      } else {
        walkers.compute(gradients(), scale, [this](std::size_t entry) { reducer->ready(1 + entry); });
      }
      local.fovs += fovs;
      local.loss_sum += walkers.finish(step);
    }
    return local;
  }

  // Sums message, or each walker's gradients, over ranks.
  void sum(const Local& local) {
    if (reducer) {
      reducer->finish();
      walkers.metrics().reduce_s += reducer->take_exposed_s();
      return;
    }
    const ScopedTimer timer(walkers.metrics().reduce_s);
    const ScopedEvent event(&timeline, {"exact sum", "communication", step});
    comm::allreduce(communicator, flags(), comm::ReduceOp::sum, options.algorithm);
    if (flags()[kFailed] > 0) return;
    exact_sum->run(each.span().first(static_cast<std::size_t>(local.fovs * network.layout().size())), gradients());
  }

  // Fields of view that were left out because their walkers are through: the rest weighs more.
  void weigh(double fovs) {
    const double wanted = static_cast<double>(options.walkers * options.accumulate);
    if (fovs == wanted) return;
    const auto factor = static_cast<float>(wanted / fovs);
    for (float& gradient : gradients()) gradient *= factor;
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
    check(options, communicator);
    impl_ = std::make_unique<Impl>(network, std::move(optimizer), std::move(schedule), examples, communicator, options);
  } catch (...) {
    failure = std::current_exception();
  }
  comm::agree(communicator, failure);
  impl_->connect();  // what it may refuse all ranks refuse alike
  comm::broadcast(communicator, std::as_writable_bytes(network.parameters()), 0);
  network.parameters_changed();
  if (!impl_->average.span().empty()) std::ranges::copy(network.parameters(), impl_->average.span().begin());
  check_replicas();
  impl_->walkers.start_prefetcher();
}

Trainer::~Trainer() = default;

StepReport Trainer::step(std::uint32_t requests) {
  Impl& t = *impl_;
  std::exception_ptr failure;
  Impl::Local local;
  std::ranges::fill(t.message.span(), 0.0F);
  if (t.reducer) t.reducer->begin(t.step);
  try {
    local = t.run_walkers();
    if (t.options.on_exhausted == OnExhausted::stop && t.walkers.exhausted()) requests |= kStop;
    for (std::size_t i = 0; i < std::size(kRequests); ++i) {
      t.flags()[kFirstRequest + i] = (requests & kRequests[i]) != 0 ? 1.0F : 0.0F;
    }
    t.flags()[kFovs] = static_cast<float>(local.fovs);
  } catch (...) {
    // The other ranks are on their way into the sum: this one joins them, tells, and all fail together.
    failure = std::current_exception();
    t.flags()[kFailed] = 1.0F;
  }
  t.sum(local);
  if (t.flags()[kFailed] > 0) comm::agree(t.communicator, failure);

  StepReport report;
  report.step = t.step;
  report.loss = local.loss_sum / static_cast<double>(std::max<std::int64_t>(local.fovs, 1));
  report.lr = t.schedule->at(t.step);
  for (std::size_t i = 0; i < std::size(kRequests); ++i) {
    if (t.flags()[kFirstRequest + i] > 0) report.requests |= kRequests[i];
  }
  const double fovs = t.flags()[kFovs];
  if (fovs == 0) {  // every walker is through
    report.requests |= kStop;
    return report;
  }
  const ScopedTimer timer(t.walkers.metrics().update_s);
  const ScopedEvent event(&t.timeline, {"update", "step", t.step});
  t.weigh(fovs);
  t.require_finite_gradients();  // all ranks hold the same sums, so all throw or none
  optim::clip_entries(t.gradients(), static_cast<float>(t.options.clip));
  t.optimizer->step(t.network.parameters(), t.gradients(), report.lr);
  t.network.parameters_changed();
  t.update_average();
  ++t.step;
  return report;
}

std::int64_t Trainer::steps_done() const noexcept { return impl_->step; }

void Trainer::set_bucket_hook(comm::BucketHook hook) {
  FLOODTIDE_REQUIRE(impl_->reducer, unsupported,
                    "train: a hook on buckets needs exactness 'run', which sums gradients in buckets");
  impl_->reducer->set_hook(std::move(hook));
}

void Trainer::trace(const std::string& path) {
  std::exception_ptr failure;
  const std::int64_t offset_ns = comm::clock_offset_ns(impl_->communicator);
  try {
    impl_->timeline.open(path, impl_->communicator.rank(), offset_ns);
  } catch (...) {
    failure = std::current_exception();
  }
  comm::agree(impl_->communicator, failure);
}

std::uint64_t Trainer::begin_activity(std::string_view name) {
  for (const std::string_view activity : {"log", "validation"}) {  // the timeline keeps views of names
    if (activity == name) return impl_->timeline.begin({activity, "step", impl_->step});
  }
  raise(ErrorCode::invalid_argument, "activity is '", name, "', expected log or validation");
}

void Trainer::end_activity(std::uint64_t number) { impl_->timeline.end(number); }

void Trainer::flush_trace() { impl_->timeline.flush(); }

void Trainer::record_failure(const std::string& reason) const {
  if (!impl_->options.record_path.empty()) {
    impl_->timeline.dump(impl_->options.record_path, impl_->communicator.rank(), reason);
  }
}

void Trainer::copy_average(nn::Ffn& network) const {
  const std::span<const float> average = impl_->average.span();
  FLOODTIDE_REQUIRE(!average.empty(), invalid_argument, "copy_average: this trainer keeps no average");
  FLOODTIDE_REQUIRE(average.size() == network.parameters().size(), shape_mismatch, "copy_average: the network has ",
                    network.parameters().size(), " parameters, expected ", average.size());
  std::ranges::copy(average, network.parameters().begin());
  network.parameters_changed();
}

Metrics Trainer::take_metrics() {
  Metrics sum = std::exchange(impl_->walkers.metrics(), {});
  const ScopedEvent event(&impl_->timeline, {"metrics", "communication", impl_->step});
  std::int64_t counts[] = {sum.fovs,           sum.examples,       sum.true_positive,
                           sum.false_positive, sum.false_negative, sum.true_negative};
  double sums[] = {sum.loss_sum, sum.data_s, sum.compute_s, sum.reduce_s, sum.update_s};
  comm::allreduce(impl_->communicator, std::span<std::int64_t>(counts), comm::ReduceOp::sum, impl_->options.algorithm);
  comm::allreduce(impl_->communicator, std::span<double>(sums), comm::ReduceOp::sum, impl_->options.algorithm);
  return {counts[0], counts[1], counts[2], counts[3], counts[4], counts[5], sums[0], sums[1], sums[2], sums[3], sums[4]};
}

void Trainer::save(const std::string& path, const std::string& configuration) {
  Impl& t = *impl_;
  const ScopedEvent event(&t.timeline, {"checkpoint", "step", t.step});
  save_checkpoint(path, configuration, t.state(), t.walkers.walkers(), t.communicator);
}

void Trainer::load(const std::string& path) {
  Impl& t = *impl_;
  std::exception_ptr failure;
  try {
    t.step = load_checkpoint(path, t.state(), t.walkers.walkers(), t.examples);
    t.network.parameters_changed();
  } catch (...) {
    failure = std::current_exception();
  }
  comm::agree(t.communicator, failure);
  check_replicas();
  t.walkers.start_prefetcher();
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
