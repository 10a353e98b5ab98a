// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::flood {

/// Return the offsets that the `fixed` policy visits in one example: the centre, then all positions one step away along any
/// combination of axes (26 positions, or fewer if a delta is 0).
/// Source: google/ffn's fixed_offsets.
[[nodiscard]] std::vector<Vec3> fixed_moves(const Vec3& deltas);

/// Shuffle all moves except the first, with random numbers from (seed, stream). google/ffn shuffles once per process; here each
/// example has its own order. Does not allocate.
void shuffle_moves(std::span<Vec3> moves, std::uint64_t seed, std::uint64_t stream);

/// Initial probability of the seed voxel. Source: google/ffn, in training and in inference.
inline constexpr double kSeedProbability = 0.95;

/// Return the logit log(p / (1 - p)) of a probability in (0, 1).
[[nodiscard]] float logit(double probability);

/// Options of all floods of a training run.
struct TrainingFloodOptions {
  Vec3 fov{33, 33, 33};    ///< field of view in voxels, odd
  Vec3 deltas{8, 8, 8};    ///< step between fields of view in voxels
  double seed_pad = 0.05;  ///< initial probability of all voxels but the seed, in (0, 1)
  double threshold = 0.9;  ///< smallest probability at the centre of a move that is made, in (0, kSeedProbability]
};

/// Return the size of the patch that the `fixed` policy needs: the field of view plus one step on each side.
[[nodiscard]] Vec3 patch_size(const Vec3& fov, const Vec3& deltas);

/// Canvas of one training example, and the list of its moves. Each move is one network pass. The logits that the network
/// predicts stay on the canvas for the later moves.
/// Source: google/ffn training/examples.py, policy `fixed`.
class TrainingFlood {
 public:
  /// Throws Error(invalid_argument) if an option is out of range.
  explicit TrainingFlood(const TrainingFloodOptions& options);

  /// Start an example: reset the canvas, and shuffle the moves with random numbers from (seed, stream).
  void begin(std::uint64_t seed, std::uint64_t stream);
  /// Continue an example after `move` entries of the list, with the logits in `canvas`. `seed` and `stream` as in begin().
  /// Throws Error(shape_mismatch) if `canvas` does not have the size of the patch. Throws Error(out_of_range) if the list has
  /// fewer than `move` entries.
  void resume(std::uint64_t seed, std::uint64_t stream, std::int64_t move, View<const float, 3> canvas);

  /// Return the field of view of the next move as a box of the patch, or no value at the end of the list.
  ///
  /// A move is skipped if the probability at its centre is below `threshold` now. The first move is never skipped.
  [[nodiscard]] std::optional<Box> advance();
  /// Return how many entries of the list have been used or skipped.
  [[nodiscard]] std::int64_t move() const noexcept { return next_; }

  /// Return the logits of the whole patch.
  [[nodiscard]] View<const float, 3> canvas() const noexcept { return canvas_.view(); }
  [[nodiscard]] View<float, 3> canvas() noexcept { return canvas_.view(); }

 private:
  TrainingFloodOptions options_;
  Tensor<float, 3> canvas_;
  std::vector<Vec3> offsets_;  // the moves before the shuffle
  std::vector<Vec3> moves_;    // the moves in the order of this example
  std::int64_t next_ = 0;
};

}  // namespace floodtide::flood
