// SPDX-License-Identifier: Apache-2.0
#include "floodtide/flood/training_flood.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::flood {

float logit(double probability) { return static_cast<float>(std::log(probability / (1 - probability))); }

Vec3 patch_size(const Vec3& fov, const Vec3& deltas) { return fov + deltas + deltas; }

TrainingFlood::TrainingFlood(const TrainingFloodOptions& options)
    : options_(options), canvas_(patch_size(options.fov, options.deltas)), offsets_(fixed_moves(options.deltas)) {
  FLOODTIDE_REQUIRE(options.seed_pad > 0 && options.seed_pad < 1, invalid_argument, "training: seed_pad is ", options.seed_pad,
                    ", expected a probability between 0 and 1");
  FLOODTIDE_REQUIRE(options.threshold > 0 && options.threshold <= kSeedProbability, invalid_argument, "training: threshold is ",
                    options.threshold, ", expected a probability above 0 and at most the seed's, ", kSeedProbability);
}

void TrainingFlood::begin(std::uint64_t seed, std::uint64_t stream) {
  moves_ = offsets_;
  shuffle_moves(moves_, seed, stream);
  next_ = 0;
  std::ranges::fill(canvas_.span(), logit(options_.seed_pad));
  const Vec3& size = canvas_.shape();
  canvas_.view()(size[0] / 2, size[1] / 2, size[2] / 2) = logit(kSeedProbability);
}

void TrainingFlood::resume(std::uint64_t seed, std::uint64_t stream, std::int64_t move, View<const float, 3> canvas) {
  begin(seed, stream);
  FLOODTIDE_REQUIRE(canvas.shape() == canvas_.shape(), shape_mismatch, "training: the stored canvas has shape ",
                    Show{canvas.shape()}, ", expected ", Show{canvas_.shape()});
  FLOODTIDE_REQUIRE(move >= 0 && move <= static_cast<std::int64_t>(moves_.size()), out_of_range, "training: stored move ", move,
                    " of ", moves_.size());
  next_ = move;
  std::ranges::copy(canvas.span(), canvas_.data());
}

std::optional<Box> TrainingFlood::advance() {
  const Vec3 middle = Box{{}, canvas_.shape()}.middle();
  const float threshold = logit(options_.threshold);
  while (next_ < static_cast<std::int64_t>(moves_.size())) {
    const Vec3 centre = middle + moves_[static_cast<std::size_t>(next_++)];
    if (canvas_.view().at(centre) >= threshold) return centred_box(centre, options_.fov);
  }
  return std::nullopt;
}

std::vector<Vec3> fixed_moves(const Vec3& deltas) {
  std::vector<Vec3> moves{{0, 0, 0}};
  for_each_voxel({{-1, -1, -1}, {3, 3, 3}}, [&](const Vec3& step) {
    const Vec3 move = by_axis([&](std::size_t axis) { return step[axis] * deltas[axis]; });
    if (std::ranges::find(moves, move) == moves.end()) moves.push_back(move);
  });
  return moves;
}

void shuffle_moves(std::span<Vec3> moves, std::uint64_t seed, std::uint64_t stream) {
  Philox random(seed, stream);
  for (std::size_t left = moves.size() - 1; left > 1; --left) {  // Fisher-Yates shuffle of all moves except the centre
    std::swap(moves[left], moves[1 + random.below(left)]);
  }
}

}  // namespace floodtide::flood
