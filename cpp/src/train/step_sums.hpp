// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/timeline.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::train {

/// Thrown on ranks that learn in the middle of a step that another one has failed.
class StepAbandoned final : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "another rank failed in this step"; }
};

/// Sums over ranks in the middle of a step (nn::SumOverRanks). A rank that fails between them takes part in the next one all
/// the same, with a flag, and all ranks leave the step there: nobody waits for sums that do not come.
class StepSums {
 public:
  /// All ranks make `per_step` sums a step, of at most `longest` numbers. References must outlive it.
  StepSums(comm::Communicator& communicator, Timeline& timeline, std::int64_t per_step, std::int64_t longest,
           std::string algorithm);

  void begin(std::int64_t step) noexcept;
  /// Collective. Throws StepAbandoned on all ranks if one of them has called abandon().
  void add(std::span<double> sums);
  /// This rank has failed. Collective with the others' next add(), if there is one.
  void abandon();
  /// Seconds in add() since the last call.
  [[nodiscard]] double take_s() noexcept;

 private:
  void sum();

  comm::Communicator& communicator_;
  Timeline& timeline_;
  std::int64_t per_step_;
  std::string algorithm_;
  std::vector<double> message_;  // the flag, then the numbers: equally long in every sum, so that it may be joined unseen
  std::int64_t step_ = 0;
  std::int64_t done_ = 0;
  double seconds_ = 0;
};

}  // namespace floodtide::train
