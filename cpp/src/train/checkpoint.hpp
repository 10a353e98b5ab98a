// SPDX-License-Identifier: Apache-2.0
// Checkpoint: file with the whole state of a training run, see docs/formats.md. A file with a network only has the same
// attributes and the group `parameters`, and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

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
inline constexpr const char* kNoiseScale = "noise_scale";  // attribute of the file, if the run measures it
inline constexpr std::size_t kActive = 3;                  // index in a position: 1 if the walker has an example

/// Texts that a checkpoint keeps for later commands.
struct CheckpointTexts {
  const std::string& configuration;  // TOML
  const std::string& statistics;     // of the training volumes, JSON; left out if empty
};

/// State that is saved in a checkpoint.
struct CheckpointState {
  Walkers& walkers;
  std::span<float> average;  // average of the parameters; empty if the run has none
  optim::Optimizer& optimizer;
  std::int64_t step;
  double rate_factor;
  std::span<double> noise_scale;  // state of NoiseScale; empty if the run does not measure it
};

/// What a checkpoint holds for this rank.
struct Checkpoint {
  std::int64_t step = 0;  ///< updates done
  double rate_factor = 1;
  std::vector<float> parameters, average;                                              // `average` is empty if the run has none
  std::vector<std::variant<std::vector<float>, std::vector<std::int64_t>>> optimizer;  // parts as in Optimizer::state()
  std::vector<double> noise_scale;       // empty if the run does not measure it, or the checkpoint has none
  std::function<void()> resume_walkers;  // gives the walkers of this rank their state
};

/// Write a checkpoint. Each rank compresses the canvases of its walkers. Rank 0 receives the walkers of one rank after another,
/// and writes the file. Collective; if a rank fails, all ranks throw AgreedError.
void save_checkpoint(const std::string& path, const CheckpointTexts& texts, const CheckpointState& state,
                     comm::Communicator& communicator);

/// Read and check a checkpoint that fits this state, which does not change. Not collective. Throws Error(invalid_file) if a
/// part is damaged or belongs to another run.
[[nodiscard]] Checkpoint read_checkpoint(const std::string& path, const CheckpointState& state);

/// Overwrite parameters, average, optimizer state, noise scale and walkers. The caller takes step and rate factor.
void restore(const Checkpoint& checkpoint, const CheckpointState& state);

}  // namespace floodtide::train
