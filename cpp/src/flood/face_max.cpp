// SPDX-License-Identifier: Apache-2.0
#include "floodtide/flood/face_max.hpp"

#include <algorithm>

#include "floodtide/base/error.hpp"
#include "floodtide/tensor/box.hpp"

namespace floodtide::flood {
namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) noexcept { return a / b - (a % b < 0 ? 1 : 0); }

/// Return the first maximum, in row-major order, of the face at `side` * deltas[axis].
FaceMove face_maximum(View<const float, 3> logits, const Vec3& deltas, std::size_t axis, std::int64_t side) {
  Vec3 low = Vec3{} - deltas;
  Vec3 high = deltas;
  low[axis] = high[axis] = side * deltas[axis];
  const Vec3 centre = Box{{}, logits.shape()}.middle();
  FaceMove best{logits.at(centre + low), low};
  for_each_voxel({low, high - low + Vec3{1, 1, 1}}, [&](const Vec3& offset) {
    const float value = logits.at(centre + offset);
    if (value > best.logit) best = {value, offset};
  });
  return best;
}

/// Inserts a move into the sorted list, unless the list has it already.
void insert(FaceMoves& moves, const FaceMove& move) {
  std::size_t place = 0;
  while (place < moves.count && moves.moves[place] > move) ++place;
  if (place < moves.count && moves.moves[place] == move) return;
  for (std::size_t i = moves.count; i > place; --i) moves.moves[i] = moves.moves[i - 1];
  moves.moves[place] = move;
  ++moves.count;
}

}  // namespace

FaceMoves face_maxima(View<const float, 3> logits, const Vec3& deltas, double threshold) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    FLOODTIDE_REQUIRE(deltas[axis] >= 0 && 2 * deltas[axis] + 1 <= logits.shape(axis), invalid_argument, "face_max: deltas ",
                      Show{deltas}, " do not fit into the field of view ", Show{logits.shape()},
                      ", expected at most half of it");
  }
  FaceMoves result{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (deltas[axis] == 0) continue;
    for (const std::int64_t side : {-1, 1}) {
      const FaceMove move = face_maximum(logits, deltas, axis, side);
      if (static_cast<double>(move.logit) >= threshold) insert(result, move);
    }
  }
  return result;
}

FaceMaxMoves::FaceMaxMoves(const Vec3& deltas, double threshold) : deltas_(deltas), threshold_(threshold) {
  FLOODTIDE_REQUIRE(std::all_of(deltas.begin(), deltas.end(), [](std::int64_t delta) { return delta >= 0; }), invalid_argument,
                    "face_max: deltas ", Show{deltas}, " are negative");
}

void FaceMaxMoves::reset(const Vec3& start) {
  start_ = start;
  queue_.assign(1, start);
  done_.clear();
}

void FaceMaxMoves::restore(State state) {
  start_ = state.start;
  queue_.assign(state.queue.begin(), state.queue.end());
  done_ = {state.done.begin(), state.done.end()};
}

Vec3 FaceMaxMoves::cell(const Vec3& position) const noexcept {
  // Half a step is added, so that the start is in the middle of its cell and all directions are equal.
  return by_axis([&](std::size_t axis) {
    return floor_divide(position[axis] - start_[axis] + deltas_[axis] / 2, std::max<std::int64_t>(deltas_[axis], 1));
  });
}

std::optional<Vec3> FaceMaxMoves::next(const std::function<bool(const Vec3&)>& valid) {
  while (!queue_.empty()) {
    const Vec3 position = queue_.front();
    queue_.pop_front();
    if (!done_.contains(cell(position)) && valid(position)) return position;
  }
  return std::nullopt;
}

void FaceMaxMoves::evaluated(const Vec3& position, View<const float, 3> logits) {
  done_.insert(cell(position));
  const FaceMoves moves = face_maxima(logits, deltas_, threshold_);
  for (const FaceMove& move : moves.span()) queue_.push_back(position + move.offset);
}

}  // namespace floodtide::flood
