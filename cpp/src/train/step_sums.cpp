// SPDX-License-Identifier: Apache-2.0
#include "train/step_sums.hpp"

#include <algorithm>
#include <utility>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::train {

StepSums::StepSums(comm::Communicator& communicator, Timeline& timeline, std::int64_t per_step, std::int64_t longest,
                   std::string algorithm)
    : communicator_(communicator),
      timeline_(timeline),
      per_step_(per_step),
      algorithm_(std::move(algorithm)),
      message_(static_cast<std::size_t>(1 + longest)) {}

void StepSums::begin(std::int64_t step) noexcept {
  step_ = step;
  done_ = 0;
}

void StepSums::add(std::span<double> sums) {
  FLOODTIDE_REQUIRE(sums.size() < message_.size() && done_ < per_step_, internal, "train: sum ", done_ + 1, " of a step has ",
                    sums.size(), " numbers, expected at most ", per_step_, " of at most ", message_.size() - 1);
  std::ranges::fill(message_, 0.0);
  std::ranges::copy(sums, message_.begin() + 1);
  sum();
  if (message_[0] > 0) throw StepAbandoned();
  std::copy_n(message_.begin() + 1, sums.size(), sums.begin());
}

void StepSums::abandon() {
  if (done_ == per_step_) return;  // the other ranks learn of the failure from the message with the gradients
  std::ranges::fill(message_, 0.0);
  message_[0] = 1;
  sum();
}

double StepSums::take_s() noexcept { return std::exchange(seconds_, 0); }

void StepSums::sum() {
  const ScopedTimer timer(seconds_);
  const ScopedEvent event(&timeline_, {"sum", "communication", step_});
  ++done_;
  comm::allreduce(communicator_, std::span<double>(message_), comm::ReduceOp::sum, algorithm_);
  if (message_[0] > 0) done_ = per_step_;
}

}  // namespace floodtide::train
