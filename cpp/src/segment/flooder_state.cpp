// SPDX-License-Identifier: Apache-2.0
// Flooder: what it has found so far, for checkpoints in the middle of an object.
#include "floodtide/segment/flooder_state.hpp"

#include <algorithm>
#include <utility>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/segment/flooder.hpp"

namespace floodtide::segment {

FlooderState Flooder::state() const {
  FlooderState state;
  static_cast<Findings&>(state) = found_;
  state.growth = growth_;
  state.moves = moves_.state();
  state.touched = canvas_.touched();
  state.logits = Tensor<float, 3>(state.touched.size);
  copy_box(canvas_.logits(), state.touched, state.logits.view());
  state.next_seed = seed_;
  // Timers that run now add their times at their ends only.
  if (growth_) {
    state.growth->walltime_s += now_s() - growth_start_s_;
    state.times_s["segment_at-loop"] += state.growth->walltime_s;
    state.times_s["segment_all"] += now_s() - all_start_s_;
  }
  return state;
}

void Flooder::restore(FlooderState state, View<const std::int32_t, 3> segmentation, View<const std::uint8_t, 3> probability) {
  require_result_here();
  FLOODTIDE_REQUIRE(segmentation.shape() == segmentation_->shape() && probability.shape() == probability_->shape(),
                    shape_mismatch, "segment: a checkpoint of ", Show{segmentation.shape()}, " voxels (z, y, x), expected ",
                    Show{segmentation_->shape()});
  const Box whole{{0, 0, 0}, canvas_.shape()};
  const auto outside = [&](const Vec3& position) { return !whole.contains(position); };
  bool damaged = !whole.contains(state.touched) || state.logits.shape() != state.touched.size || state.next_seed < 0 ||
                 std::ranges::any_of(state.moves.queue, outside);
  if (state.growth) {
    const Growth& growth = *state.growth;
    damaged = damaged || !canvas_.holds_fov(growth.start) || growth.iterations < 1;
  }
  FLOODTIDE_REQUIRE(!damaged, invalid_file, "segment: the checkpoint has positions outside of ", Show{canvas_.shape()},
                    " (z, y, x), expected one of this box");
  std::ranges::copy(segmentation.span(), segmentation_->data());
  std::ranges::copy(probability.span(), probability_->data());
  segmented_ = std::ranges::count_if(segmentation.span(), [](std::int32_t label) { return label > 0; });
  canvas_.restore(state.touched, std::as_const(state.logits).view());
  moves_.restore(std::move(state.moves));
  growth_ = state.growth;
  seed_ = state.next_seed;
  resumed_at_ = state.next_seed;
  found_ = std::move(state);
}

}  // namespace floodtide::segment
