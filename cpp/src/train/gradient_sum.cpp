// SPDX-License-Identifier: Apache-2.0
#include "train/gradient_sum.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/exact_sum.hpp"
#include "floodtide/comm/reducer.hpp"

namespace floodtide::train {
namespace {

/// Return the parts of the message: the flags, then the gradients of each array. The flags come first, because the parts at the
/// end of the message are sent first: the backward pass finishes the last layers first.
constexpr std::size_t kFlagParts = 1;
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

/// Exactness::run: sums the message in buckets while the backward pass continues. A small batch is the batch of one rank.
class BucketSum final : public GradientSum {
 public:
  explicit BucketSum(const StepParts& parts) : GradientSum(parts), square_sum_(parts.walkers.layout().size()) {}

  void connect() override {
    const TrainerOptions& options = parts_.options;
    reducer_.emplace(parts_.communicator, parts_.message, message_parts(parts_.walkers.layout()),
                     comm::ReducerOptions{options.bucket_bytes, options.algorithm, options.wire, kFlagParts}, &parts_.timeline);
  }

  void begin(std::int64_t step) override {
    own_square_ = 0;
    reducer_->begin(step);
  }

  void compute(std::int64_t ready, bool last, const nn::SumOverRanks& sum) override {
    if (!last) return GradientSum::compute(ready, last, sum);
    parts_.walkers.compute(parts_.gradients(), parts_.scale(), [this](std::size_t entry) { send(entry); }, sum);
  }

  void end_passes(std::int64_t examples) override {
    if (!parts_.measures_noise || examples == 0) return;
    // These gradients were divided by the number of all examples, not by the number of this rank's.
    const double share = static_cast<double>(parts_.examples) / static_cast<double>(examples);
    parts_.flags()[kSmallSquares] = static_cast<float>(share * share * own_square_);
    parts_.flags()[kSmallInverses] = 1.0F / static_cast<float>(examples);
    parts_.flags()[kSmallBatches] = 1.0F;
  }

  double run() override {
    reducer_->finish();
    return reducer_->take_exposed_s();
  }

  std::optional<SmallBatches> small_batches() override {
    const double batches = parts_.flags()[kSmallBatches];
    return SmallBatches{parts_.flags()[kSmallSquares] / batches, parts_.flags()[kSmallInverses] / batches};
  }

  void set_hook(comm::BucketHook hook) override { reducer_->set_hook(std::move(hook)); }

 private:
  /// Gives an array to the reducer, after its gradient is complete on this rank.
  void send(std::size_t entry) {
    const ParameterLayout& layout = parts_.walkers.layout();
    const ParameterLayout::Entry& array = layout.entry(entry);
    if (parts_.measures_noise && array.offset < layout.trained_size()) {
      own_square_ += square_sum_(part(parts_.gradients(), array));
    }
    reducer_->ready(1 + entry);
  }

  std::optional<comm::Reducer> reducer_;
  optim::SquareSum square_sum_;
  double own_square_ = 0;  // squared norm of the gradient of this rank
};

/// Exactness::workers: keeps the gradients of each walker, and sums them in fixed point. A small batch is the batch of one
/// walker.
class WalkerSum final : public GradientSum {
 public:
  explicit WalkerSum(const StepParts& parts)
      : GradientSum(parts),
        length_(parts.walkers.layout().size()),
        each_(parts.walkers.local() * parts.options.accumulate * length_),
        small_squares_(static_cast<std::size_t>(parts.walkers.options().walkers * parts.options.accumulate)),
        square_sum_(length_),
        sum_(parts.communicator, gradient_parts(parts.walkers.layout()), std::ssize(small_squares_), parts.options.algorithm) {}

  void begin(std::int64_t step) override {
    step_ = step;
    terms_ = 0;
  }

  void compute(std::int64_t ready, bool, const nn::SumOverRanks&) override {
    parts_.walkers.compute_each(gradients_of(terms_, ready), parts_.scale());
    terms_ += ready;
  }

  double run() override {
    const double begin_s = now_s();
    const ScopedEvent event(&parts_.timeline, {"exact sum", "communication", step_});
    comm::allreduce(parts_.communicator, parts_.flags(), comm::ReduceOp::sum, parts_.options.algorithm);
    if (parts_.flags()[kFailed] == 0) sum_.run(gradients_of(0, terms_), parts_.gradients());
    return now_s() - begin_s;
  }

  std::optional<SmallBatches> small_batches() override {
    if (parts_.flags()[kExamples] != static_cast<float>(parts_.examples)) return {};  // some walkers have no example
    const Walkers& walkers = parts_.walkers;
    const auto trained = static_cast<std::size_t>(walkers.layout().trained_size());
    // Each walker has its own place, so that the sum does not depend on the number of ranks.
    std::ranges::fill(small_squares_, 0.0);
    for (std::int64_t term = 0; term < terms_; ++term) {
      const std::int64_t round = term / walkers.local();
      const std::int64_t place = round * walkers.options().walkers + walkers.number(term % walkers.local());
      small_squares_[static_cast<std::size_t>(place)] = square_sum_(gradients_of(term, 1).first(trained));
    }
    comm::allreduce(parts_.communicator, std::span<double>(small_squares_), comm::ReduceOp::sum, parts_.options.algorithm);
    const auto batches = static_cast<double>(small_squares_.size());
    const double total = std::accumulate(small_squares_.begin(), small_squares_.end(), 0.0);
    // The mean gradient of a walker is `batches` times its part of the mean of all.
    return SmallBatches{batches * total, batches / static_cast<double>(parts_.examples)};
  }

 private:
  /// Return the gradients of some walkers of this step.
  std::span<float> gradients_of(std::int64_t first, std::int64_t count) {
    return each_.span().subspan(static_cast<std::size_t>(first * length_), static_cast<std::size_t>(count * length_));
  }

  std::int64_t length_;
  AlignedBuffer<float> each_;          // gradients of each walker of this rank and each pass
  std::vector<double> small_squares_;  // squared norms of the gradients of each walker
  optim::SquareSum square_sum_;
  comm::ExactSum sum_;
  std::int64_t step_ = 0;
  std::int64_t terms_ = 0;  // number of gradients in `each_`
};

}  // namespace

void GradientSum::compute(std::int64_t, bool, const nn::SumOverRanks& sum) {
  parts_.walkers.compute(parts_.gradients(), parts_.scale(), {}, sum);
}

void GradientSum::set_hook(comm::BucketHook) {
  raise(ErrorCode::unsupported, "train: a hook on buckets needs exactness 'run', which sums gradients in buckets");
}

std::unique_ptr<GradientSum> make_gradient_sum(const StepParts& parts) {
  if (parts.options.mode != Mode::synchronous) return std::make_unique<GradientSum>(parts);
  if (parts.options.exactness == Exactness::workers) return std::make_unique<WalkerSum>(parts);
  return std::make_unique<BucketSum>(parts);
}

}  // namespace floodtide::train
