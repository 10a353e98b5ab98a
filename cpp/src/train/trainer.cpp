// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <iterator>
#include <utility>
#include <variant>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/hash.hpp"
#include "floodtide/base/timeline.hpp"
#include "floodtide/comm/collectives.hpp"
#include "train/checkpoint.hpp"
#include "train/exchange.hpp"
#include "train/gradient_sum.hpp"
#include "train/replicas.hpp"
#include "train/step_sums.hpp"
#include "train/updates.hpp"

namespace floodtide::train {
namespace {

void check(const TrainerOptions& options, const comm::Communicator& communicator) {
  FLOODTIDE_REQUIRE(options.clip > 0, invalid_argument, "train: clip is ", options.clip, ", expected a positive number");
  FLOODTIDE_REQUIRE(options.clip_norm >= 0, invalid_argument, "train: clip_norm is ", options.clip_norm,
                    ", expected a positive number, or 0 for no limit");
  FLOODTIDE_REQUIRE(options.average >= 0 && options.average < 1, invalid_argument, "train: average is ", options.average,
                    ", expected at least 0 and below 1");
  FLOODTIDE_REQUIRE(options.mode == Mode::synchronous || options.exactness == Exactness::run, invalid_argument,
                    "train: exactness 'workers' needs the synchronous mode, in which every step has all walkers' gradients");
  FLOODTIDE_REQUIRE(options.mode == Mode::synchronous || options.wire == comm::Wire::native, invalid_argument,
                    "train: a wire format needs the synchronous mode");
  FLOODTIDE_REQUIRE(options.mode != Mode::partial || (options.contributors >= 1 && options.contributors <= communicator.size()),
                    invalid_argument, "train: ", options.contributors, " contributors, expected 1 to ", communicator.size(),
                    ", the number of ranks");
  FLOODTIDE_REQUIRE(options.bucket_bytes >= static_cast<std::int64_t>(sizeof(float)), invalid_argument, "train: buckets of ",
                    options.bucket_bytes, " bytes, expected at least ", sizeof(float));
  FLOODTIDE_REQUIRE(options.accumulate >= 1, invalid_argument, "train: accumulate is ", options.accumulate,
                    ", expected at least 1");
  static_cast<void>(comm::AllreduceTable::parse(options.algorithm));
  FLOODTIDE_REQUIRE(options.timeout_s >= 0, invalid_argument, "train: timeout_s is ", options.timeout_s,
                    ", expected a positive number, or 0 for no limit");
}

/// Fields of Metrics, in the order in which ranks send them.
constexpr std::int64_t Metrics::* kMetricCounts[] = {
    &Metrics::fovs,          &Metrics::examples,       &Metrics::dropped,        &Metrics::staleness_sum,
    &Metrics::true_positive, &Metrics::false_positive, &Metrics::false_negative, &Metrics::true_negative};
constexpr double Metrics::* kMetricSums[] = {&Metrics::loss_sum, &Metrics::data_s, &Metrics::compute_s, &Metrics::reduce_s,
                                             &Metrics::update_s};
static_assert(sizeof(Metrics) == std::size(kMetricCounts) * sizeof(std::int64_t) + std::size(kMetricSums) * sizeof(double));

/// Sums some fields of the metrics over ranks. Collective.
template <class T, std::size_t Count>
void sum_over_ranks(comm::Communicator& communicator, Metrics& metrics, T Metrics::* const (&fields)[Count],
                    std::string_view algorithm) {
  std::array<T, Count> values;
  for (std::size_t i = 0; i < Count; ++i) values[i] = metrics.*fields[i];
  comm::allreduce(communicator, std::span<T>(values), comm::ReduceOp::sum, algorithm);
  for (std::size_t i = 0; i < Count; ++i) metrics.*fields[i] = values[i];
}

}  // namespace

struct Trainer::Impl {
  std::shared_ptr<Walkers> walkers;
  comm::Communicator& communicator;
  TrainerOptions options;
  std::int64_t examples;  // number of examples in an update, over all ranks
  Timeline timeline;
  std::shared_ptr<AlignedBuffer<float>> message;  // flags and gradients, see message_parts; shared with callers of the hook
  AlignedBuffer<float> parameters;  // copy that an exchange updates while the network computes; empty in Mode::synchronous
  AlignedBuffer<float> newest;      // what the exchange gave back; empty in Mode::synchronous
  ParameterUpdates updates;
  StepSums sums;
  std::int64_t step = 0;
  bool met = true;  // true: all ranks are at the same step, and no update is in progress
  std::unique_ptr<GradientSum> gradient_sum;
  std::unique_ptr<GradientExchange> exchange;  // takes the gradients in Mode::partial, else null
  std::optional<comm::ActivityLog::Training> watched;

  Impl(std::shared_ptr<Walkers> own, std::unique_ptr<optim::Optimizer> optimizer, optim::Schedule schedule,
       const optim::Scaling& scaling, comm::Communicator& ranks, const TrainerOptions& trainer_options)
      : walkers(std::move(own)),
        communicator(ranks),
        options(trainer_options),
        examples(walkers->examples_per_pass() * options.accumulate),
        message(std::make_shared<AlignedBuffer<float>>(static_cast<std::int64_t>(kFlags) + walkers->layout().size())),
        parameters(options.mode == Mode::synchronous ? 0 : walkers->layout().size()),
        newest(parameters.size()),
        updates(options.mode == Mode::synchronous ? walkers->parameters() : parameters.span(), walkers->layout(),
                std::move(optimizer), std::move(schedule), scaling, examples, options),
        sums(ranks, timeline, walkers->sums_per_pass() * options.accumulate, walkers->longest_sum(), options.algorithm) {
    FLOODTIDE_REQUIRE(walkers->sums_per_pass() == 0 || options.mode == Mode::synchronous, invalid_argument,
                      "train: a loss or statistics over the global batch need the synchronous mode");
    FLOODTIDE_REQUIRE(walkers->sums_per_pass() == 0 || options.exactness == Exactness::run, invalid_argument,
                      "train: a loss or statistics over the global batch need exactness 'run'");
    if (updates.measures_noise()) require_noise_measurable();
    gradient_sum = make_gradient_sum({.walkers = *walkers,
                                      .communicator = ranks,
                                      .options = options,
                                      .timeline = timeline,
                                      .message = message->span(),
                                      .examples = examples,
                                      .measures_noise = updates.measures_noise()});
  }

  void require_noise_measurable() const {
    const bool several =
        options.exactness == Exactness::workers ? walkers->options().walkers * options.accumulate > 1 : communicator.size() > 1;
    FLOODTIDE_REQUIRE(
        options.mode == Mode::synchronous && options.wire == comm::Wire::native && several, unsupported,
        "train: the gradient noise scale needs gradients of several small batches: comm.mode 'synchronous', comm.wire"
        " 'native', and 2 ranks or comm.exactness 'workers' with 2 walkers");
  }

  // Makes the object that combines the gradients of the ranks. Collective.
  void connect() {
    if (options.mode == Mode::partial) {
      exchange = make_partial_exchange(communicator, updates,
                                       {.length = message->span().size(),
                                        .contributors = options.contributors,
                                        .late = options.late,
                                        .algorithm = options.algorithm});
    }
    gradient_sum->connect();
    if (options.activity != nullptr) watched.emplace(*options.activity, timeline, options.timeout_s, options.record_path);
  }

  void set_parameters(std::span<const float> values) {
    const nn::NetworkUse::Hold change = walkers->use().change();
    std::ranges::copy(values, walkers->parameters().begin());
  }

  // Call this when the parameters of the network were set, at the start or from a file.
  void take_parameters() {
    std::ranges::copy(walkers->parameters().first(parameters.span().size()), parameters.span().begin());
  }

  std::span<float> gradients() { return message->span().subspan(kFlags); }
  std::span<float> flags() { return message->span().first(kFlags); }

  // Throws an AgreedError if the ranks hold different values. Does nothing between meetings of the ranks. Collective.
  void require_equal_replicas(std::span<const float> own, std::span<const float> average, const auto& optimizer,
                              std::int64_t at) {
    if (!met) return;
    const ScopedEvent event(&timeline, {"check replicas", "communication", at});
    ReplicaHashes hashes;
    {
      const nn::NetworkUse::Hold reading = walkers->use().read();
      hashes.parameters = hash_of(std::as_bytes(own));
    }
    hashes.average = hash_of(std::as_bytes(average));
    const auto add = [&](const auto& values) {
      hashes.optimizer = hash_of(std::as_bytes(std::span(values)), hashes.optimizer);
    };
    for (const auto& part : optimizer) std::visit(add, part);
    require_equal(communicator, hashes, at);
  }

  [[nodiscard]] CheckpointState state() {
    const std::span<double> noise = updates.noise_scale().state();
    return {.walkers = *walkers,
            .average = updates.average(),
            .optimizer = updates.optimizer(),
            .step = step,
            .rate_factor = updates.rate_factor(),
            .noise_scale = updates.measures_noise() ? noise : std::span<double>()};
  }

  // Runs forward and backward passes of the next examples of the walkers of this rank.
  PassResult run_walkers() {
    const nn::SumOverRanks sum = [this](std::span<double> numbers) { sums.add(numbers); };
    PassResult local;
    for (int round = 0; round < options.accumulate; ++round) {
      std::int64_t ready = 0;
      {
        const ScopedEvent event(&timeline, {"data", "step", step});
        ready = walkers->prepare();
      }
      const ScopedEvent event(&timeline, {"compute", "step", step});
      gradient_sum->compute(ready, round + 1 == options.accumulate, sum);
      const PassResult pass = walkers->finish(step);
      local.examples += pass.examples;
      local.loss_sum += pass.loss_sum;
    }
    gradient_sum->end_passes(local.examples);
    return local;
  }

  StepReport report_of(const PassResult& local) {
    const auto examples_here = static_cast<double>(std::max<std::int64_t>(local.examples, 1));
    return {.step = step, .loss = local.loss_sum / examples_here, .lr = updates.rate(step)};
  }

  // Computes the message of this rank. Returns an exception in out_failure, which the caller throws after the other ranks know
  // of the failure. Until the end of out_training, no other thread changes the parameters.
  PassResult fill_message(std::uint32_t requests, std::exception_ptr& out_failure, nn::NetworkUse::Hold& out_training) {
    PassResult local;
    sums.begin(step);
    std::ranges::fill(message->span(), 0.0F);
    gradient_sum->begin(step);
    try {
      out_training = walkers->use().step();
      local = run_walkers();
      if (options.on_exhausted == OnExhausted::stop && walkers->exhausted()) requests |= kStop;
      for (std::size_t i = 0; i < std::size(kRequests); ++i) {
        flags()[kFirstRequest + i] = (requests & kRequests[i]) != 0 ? 1.0F : 0.0F;
      }
      flags()[kExamples] = static_cast<float>(local.examples);
    } catch (const StepAbandoned&) {
      flags()[kFailed] = 1.0F;
    } catch (...) {
      // The other ranks will wait in a sum. This rank takes part in the sum with a flag, so that all ranks fail together.
      out_failure = std::current_exception();
      flags()[kFailed] = 1.0F;
      sums.abandon();
    }
    return local;
  }

  // Runs a step of Mode::synchronous, in which all ranks wait for each other. Collective.
  StepReport step_together(std::uint32_t requests) {
    std::exception_ptr failure;
    nn::NetworkUse::Hold training;
    const PassResult local = fill_message(requests, failure, training);
    const double within_s = sums.take_s();  // this time was counted as computing
    walkers->metrics().compute_s -= within_s;
    walkers->metrics().reduce_s += within_s + gradient_sum->run();
    if (flags()[kFailed] > 0) comm::agree(communicator, failure);
    StepReport report = report_of(local);
    report.requests = requests_of(flags());
    if (flags()[kExamples] == 0) {  // no walker has more examples
      report.requests |= kStop;
      return report;
    }
    if (updates.measures_noise()) {
      if (const auto batches = gradient_sum->small_batches()) updates.give_small_batches(*batches);
    }
    const ScopedTimer timer(walkers->metrics().update_s);
    const ScopedEvent event(&timeline, {"update", "step", step});
    {
      const nn::NetworkUse::Hold change = walkers->use().change();
      updates.update(message->span(), step);  // all ranks have the same sums, so either all ranks throw or none
    }
    report.gradient_norm = updates.gradient_norm();
    ++step;
    return report;
  }

  // Runs a step of Mode::partial: gives the gradients of this rank to the exchange, and continues with the newest parameters.
  StepReport step_apart(std::uint32_t requests) {
    if (met) exchange->resume(step);
    std::exception_ptr failure;
    nn::NetworkUse::Hold training;
    const PassResult local = fill_message(requests, failure, training);
    StepReport report = report_of(local);
    ExchangeReport given;
    {
      const ScopedTimer timer(walkers->metrics().reduce_s);
      const ScopedEvent event(&timeline, {"exchange", "communication", step});
      given = exchange->give(message->span(), step, newest.span());
    }
    if (!failure) set_parameters(newest.span());
    step = given.step;
    met = report.met = given.meet;
    report.requests = given.requests;
    if (given.failed) comm::agree(communicator, failure);
    if (failure) std::rethrow_exception(failure);  // the other ranks do not know of this failure
    if (given.used) {
      walkers->metrics().staleness_sum += given.staleness * local.examples;
    } else {
      walkers->metrics().dropped += local.examples;
    }
    return report;
  }
};

Trainer::Trainer(std::shared_ptr<Walkers> walkers, std::unique_ptr<optim::Optimizer> optimizer, optim::Schedule schedule,
                 const optim::Scaling& scaling, comm::Communicator& communicator, const TrainerOptions& options) {
  nn::NetworkUse::Hold training;
  comm::agree_after(communicator, [&] {
    check(options, communicator);
    impl_ =
        std::make_unique<Impl>(std::move(walkers), std::move(optimizer), std::move(schedule), scaling, communicator, options);
    training = impl_->walkers->use().step();
  });
  impl_->connect();  // if this throws, it throws on all ranks
  std::ranges::copy(impl_->walkers->parameters(), impl_->gradients().begin());
  comm::broadcast(communicator, std::as_writable_bytes(impl_->gradients()), 0);
  impl_->set_parameters(impl_->gradients());
  impl_->take_parameters();
  std::ranges::copy(impl_->walkers->parameters().first(impl_->updates.average().size()), impl_->updates.average().begin());
  check_replicas();
  impl_->walkers->start_prefetcher();
}

Trainer::~Trainer() = default;

StepReport Trainer::step(std::uint32_t requests) {
  return impl_->exchange ? impl_->step_apart(requests) : impl_->step_together(requests);
}

std::int64_t Trainer::steps_done() const noexcept { return impl_->step; }

void Trainer::set_rate_factor(double factor) {
  require_in(kRateFactors, factor, "train: the factor of the learning rate");
  impl_->updates.set_rate_factor(factor);
}

void Trainer::set_pace(const optim::Pace& pace) {
  FLOODTIDE_REQUIRE(impl_->options.mode == Mode::synchronous, unsupported, "train: a pace needs the synchronous mode");
  FLOODTIDE_REQUIRE(pace.per_step > 0 && std::isfinite(pace.planned + pace.per_step), invalid_argument, "train: a pace of ",
                    pace.per_step, " planned steps, expected more than 0");
  impl_->updates.set_pace(pace);
}

std::optional<optim::NoiseScale::Estimate> Trainer::noise_scale() const {
  return impl_->updates.measures_noise() ? impl_->updates.noise_scale().estimate() : std::nullopt;
}

double Trainer::rate_factor() const noexcept { return impl_->updates.rate_factor(); }

void Trainer::set_bucket_hook(comm::BucketHook hook) { impl_->gradient_sum->set_hook(std::move(hook)); }

std::shared_ptr<const void> Trainer::bucket_memory() const noexcept { return impl_->message; }

void Trainer::trace(const std::string& path) {
  const std::int64_t offset_ns = comm::clock_offset_ns(impl_->communicator);
  comm::agree_after(impl_->communicator, [&] { impl_->timeline.open(path, impl_->communicator.rank(), offset_ns); });
}

std::uint64_t Trainer::begin_activity(std::string_view name) {
  for (const std::string_view activity : {"log", "validation"}) {  // string literals, because the timeline does not copy names
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

std::span<const float> Trainer::average() const {
  const std::span<const float> average = impl_->updates.average();
  FLOODTIDE_REQUIRE(!average.empty(), invalid_argument, "average: this trainer keeps none");
  return average;
}

Metrics Trainer::take_metrics() {
  Metrics sum = std::exchange(impl_->walkers->metrics(), {});
  const ScopedEvent event(&impl_->timeline, {"metrics", "communication", impl_->step});
  sum_over_ranks(impl_->communicator, sum, kMetricCounts, impl_->options.algorithm);
  sum_over_ranks(impl_->communicator, sum, kMetricSums, impl_->options.algorithm);
  return sum;
}

void Trainer::save(const std::string& path, const std::string& configuration, const std::string& statistics) {
  Impl& t = *impl_;
  const ScopedEvent event(&t.timeline, {"checkpoint", "step", t.step});
  save_checkpoint(path, {configuration, statistics}, t.state(), t.communicator);
}

void Trainer::load(const std::string& path) {
  Impl& t = *impl_;
  Checkpoint checkpoint;
  nn::NetworkUse::Hold training;
  // Nothing changes before all ranks have read the whole checkpoint, and the same one.
  comm::agree_after(t.communicator, [&] {
    training = t.walkers->use().step();
    checkpoint = read_checkpoint(path, t.state());
  });
  t.require_equal_replicas(checkpoint.parameters, checkpoint.average, checkpoint.optimizer, checkpoint.step);
  restore(checkpoint, t.state());
  t.step = checkpoint.step;
  t.updates.set_rate_factor(checkpoint.rate_factor);
  t.take_parameters();
  t.walkers->start_prefetcher();
}

void Trainer::check_replicas() {
  Impl& t = *impl_;
  std::vector<decltype(optim::NamedSpan::values)> optimizer;
  for (const optim::NamedSpan& part : t.updates.optimizer().state()) optimizer.push_back(part.values);
  t.require_equal_replicas(t.walkers->parameters(), t.updates.average(), optimizer, t.step);
}

}  // namespace floodtide::train
