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

/// Thrown in the middle of a step on ranks that learn that another rank has failed.
class StepAbandoned final : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "another rank failed in this step"; }
};

/// Sums over ranks in the middle of a step (nn::SumOverRanks).
///
/// A rank that fails between two sums takes part in the next sum with a flag. All ranks then end the step there, so that no
/// rank waits for the failed rank.
class StepSums {
 public:
  /// All ranks make `per_step` sums per step, of at most `longest` numbers each. References must outlive this object.
  StepSums(comm::Communicator& communicator, Timeline& timeline, std::int64_t per_step, std::int64_t longest,
           std::string algorithm);

  void begin(std::int64_t step) noexcept;
  /// Sums numbers over ranks, in place. Collective. Throws StepAbandoned on all ranks if one of them has called abandon().
  void add(std::span<double> sums);
  /// Call this if this rank has failed. Takes part in the next add() of the other ranks, if there is one.
  void abandon();
  /// Return the seconds spent in sums since the last call of this function.
  [[nodiscard]] double take_s() noexcept;

 private:
  void sum();

  comm::Communicator& communicator_;
  Timeline& timeline_;
  std::int64_t per_step_;
  std::string algorithm_;
  std::vector<double> message_;  // flag, then numbers; all sums have the same length, so that a failed rank can take part
  std::int64_t step_ = 0;
  std::int64_t done_ = 0;
  double seconds_ = 0;
};

}  // namespace floodtide::train
