// SPDX-License-Identifier: Apache-2.0
// The file of a training run's whole state; docs/formats.md describes it. A network saved alone has the same attributes and
// the group `parameters`, and nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "floodtide/comm/communicator.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/train/trainer.hpp"
#include "floodtide/train/walkers.hpp"

namespace floodtide::train {

inline constexpr const char* kOptimizerGroup = "optimizer";
inline constexpr const char* kPositions = "walkers/position";
inline constexpr const char* kCanvases = "walkers/canvas";
inline constexpr const char* kChecksums = "walkers/crc32c";
inline constexpr const char* kRateFactor = "rate_factor";  // attribute of the file; files without it have 1
inline constexpr std::size_t kActive = 3;                  // entry of a position: whether the walker has an example

/// What is saved.
struct CheckpointState {
  Walkers& walkers;
  std::span<float> average;  // of the parameters; empty without
  optim::Optimizer& optimizer;
  std::int64_t step;
  double rate_factor;
};

/// Where a run goes on: updates done, and the factor of the schedule's rate.
struct CheckpointPlace {
  std::int64_t step = 0;
  double rate_factor = 1;
};

/// Gathers the walkers of all ranks, one canvas at a time, into a file that rank 0 writes. Collective; throws on all ranks.
void save_checkpoint(const std::string& path, const std::string& configuration, const CheckpointState& state,
                     comm::Communicator& communicator);

/// Read parameters, optimizer state and this rank's walkers into `state`; return where the run goes on. Not collective.
[[nodiscard]] CheckpointPlace load_checkpoint(const std::string& path, const CheckpointState& state);

}  // namespace floodtide::train
