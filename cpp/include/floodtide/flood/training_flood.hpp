// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::flood {

/// Probability that the seed voxel starts with. Source: google/ffn, training and inference alike.
inline constexpr double kSeedProbability = 0.95;

/// Logarithm of the odds of a probability in (0, 1).
[[nodiscard]] float logit(double probability);

/// What the floods of a training run have in common.
struct TrainingFloodOptions {
  Vec3 fov{33, 33, 33};    ///< voxels, odd
  Vec3 deltas{8, 8, 8};    ///< voxels
  double seed_pad = 0.05;  ///< probability that an unvisited voxel starts with, in (0, 1)
  double threshold = 0.9;  ///< probability at a FOV centre from which a move is made, in (0, kSeedProbability]
};

/// The size of the patch that the `fixed` policy needs: one step on each side of the field of view.
[[nodiscard]] Vec3 patch_size(const Vec3& fov, const Vec3& deltas);

/// The canvas of one training example and the list of moves still to be tried on it. Each move is one network pass (one
/// optimizer step in training); what the network predicts stays on the canvas for the moves after it.
/// Source: google/ffn training/examples.py, policy `fixed`.
class TrainingFlood {
 public:
  /// Throws Error(invalid_argument) if an option is out of range.
  explicit TrainingFlood(const TrainingFloodOptions& options);

  /// Fresh canvas, all moves to be tried, in an order drawn from (seed, stream).
  void begin(std::uint64_t seed, std::uint64_t stream);
  /// As begin, but continues where `move` entries of the list have been tried and `canvas` has been predicted.
  /// Throws Error(shape_mismatch) if the canvas is not of the patch's size, Error(out_of_range) if the list is shorter.
  void resume(std::uint64_t seed, std::uint64_t stream, std::int64_t move, View<const float, 3> canvas);

  /// The box of the next move within the patch, if its centre has been reached by the object predicted so far; moves that
  /// are not reached are dropped. None when the list is exhausted. The first move is always taken.
  [[nodiscard]] std::optional<Box> advance();
  /// Entries of the list that have been taken or dropped.
  [[nodiscard]] std::int64_t move() const noexcept { return next_; }

  /// Logits of the whole patch.
  [[nodiscard]] View<const float, 3> canvas() const noexcept { return canvas_.view(); }
  [[nodiscard]] View<float, 3> canvas() noexcept { return canvas_.view(); }

 private:
  TrainingFloodOptions options_;
  Tensor<float, 3> canvas_;
  std::vector<Vec3> offsets_;  // the moves in a fixed order
  std::vector<Vec3> moves_;    // in the order of this example
  std::int64_t next_ = 0;
};

}  // namespace floodtide::flood
