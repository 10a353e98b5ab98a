// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "floodtide/tensor/view.hpp"

namespace floodtide::flood {

/// A candidate for the next field of view, relative to the one just evaluated.
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

/// The highest logit on each face of the box centre - deltas .. centre + deltas, where it reaches `threshold`.
/// The first one in row-major order wins a tie within a face; a voxel found on two faces counts once; the result is sorted
/// by falling logit, then falling offset. An axis with delta 0 has no faces.
///
/// @param logits [z, y, x] the field of view just evaluated; 2 deltas + 1 fit into it
/// Source: google/ffn, movement.get_scored_move_offsets.
[[nodiscard]] FaceMoves face_maxima(View<const float, 3> logits, const Vec3& deltas, double threshold);

/// The order in which one object is visited: first in, first out; every cell of a grid of `deltas`, centred at the start,
/// is evaluated at most once.
/// Source: google/ffn, movement.FaceMaxMovementPolicy.
class FaceMaxMoves {
 public:
  /// @param threshold logit that a face maximum must reach; compared in double, as google/ffn does.
  FaceMaxMoves(const Vec3& deltas, double threshold);

  /// Forgets everything and queues the start.
  void reset(const Vec3& start);
  /// The next position whose cell is new and which `valid` accepts now (it is asked at the latest moment, and only for new
  /// cells); nothing if the queue is empty.
  [[nodiscard]] std::optional<Vec3> next(const std::function<bool(const Vec3&)>& valid);
  /// Records that `position` was evaluated with this result and queues its face maxima.
  void evaluated(const Vec3& position, View<const float, 3> logits);

 private:
  [[nodiscard]] Vec3 cell(const Vec3& position) const noexcept;

  Vec3 deltas_;
  double threshold_;
  Vec3 start_{};
  std::deque<Vec3> queue_;
  std::set<Vec3> done_;
};

}  // namespace floodtide::flood
