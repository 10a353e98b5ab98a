// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "floodtide/tensor/view.hpp"

namespace floodtide::flood {

/// Candidate for the next field of view. `offset` is relative to the field of view just evaluated.
struct FaceMove {
  float logit;
  Vec3 offset;
  auto operator<=>(const FaceMove&) const = default;
};

/// Up to six moves, best first.
struct FaceMoves {
  std::array<FaceMove, 6> moves;
  std::size_t count = 0;
  [[nodiscard]] std::span<const FaceMove> span() const& noexcept { return {moves.data(), count}; }
  std::span<const FaceMove> span() && = delete;  // would outlive its moves
};

/// Return the highest logit on each face of the box from centre - deltas to centre + deltas, if it is at least `threshold`.
///
/// If several voxels of a face have the same logit, the first one in row-major order is used. A voxel on two faces is returned
/// once. The result is sorted by falling logit, then by falling offset. An axis with delta 0 has no faces.
///
/// @param logits (z, y, x) field of view just evaluated, at least 2 * deltas + 1 voxels (Error(invalid_argument) otherwise)
/// Source: google/ffn, movement.get_scored_move_offsets.
[[nodiscard]] FaceMoves face_maxima(View<const float, 3> logits, const Vec3& deltas, double threshold);

/// Queue of the positions of one object, first in, first out. Space is divided into cells of size `deltas`, centred at the
/// start, and each cell is evaluated at most once.
/// Source: google/ffn, movement.FaceMaxMovementPolicy.
class FaceMaxMoves {
 public:
  /// The queue of an object, and the cells that were evaluated.
  struct State {
    Vec3 start{};
    std::vector<Vec3> queue;
    std::vector<Vec3> done;
  };

  /// Makes an empty queue.
  /// @param deltas    voxels, at least 0 (Error(invalid_argument) otherwise)
  /// @param threshold smallest logit of a face maximum; compared in double, as in google/ffn
  FaceMaxMoves(const Vec3& deltas, double threshold);

  /// Start a new object: empty the queue, then add `start`.
  void reset(const Vec3& start);
  /// Return the next position whose cell was not evaluated and that `valid` accepts, or no value if the queue becomes empty.
  /// Other positions are removed from the queue. `valid` is called for positions in new cells only.
  [[nodiscard]] std::optional<Vec3> next(const std::function<bool(const Vec3&)>& valid);
  /// Record that `position` was evaluated with the result `logits`, and add its face maxima to the queue.
  void evaluated(const Vec3& position, View<const float, 3> logits);

  [[nodiscard]] State state() const { return {start_, {queue_.begin(), queue_.end()}, {done_.begin(), done_.end()}}; }
  void restore(State state);

 private:
  [[nodiscard]] Vec3 cell(const Vec3& position) const noexcept;

  Vec3 deltas_;
  double threshold_;
  Vec3 start_{};
  std::deque<Vec3> queue_;
  std::set<Vec3> done_;
};

}  // namespace floodtide::flood
