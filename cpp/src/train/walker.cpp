// SPDX-License-Identifier: Apache-2.0
#include "train/walker.hpp"

#include <algorithm>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::train {
namespace {

constexpr std::uint64_t kMoveOrder = 0x6D6F766573;  // purpose of the random stream: the order of moves

std::uint64_t move_stream(const data::Cursor& cursor) {
  return stream_id(kMoveOrder, stream_id(static_cast<std::uint64_t>(cursor.walker), static_cast<std::uint64_t>(cursor.epoch)),
                   static_cast<std::uint64_t>(cursor.index));
}

}  // namespace

data::Cursor Walker::next_cursor(const data::ExampleSource& source) const {
  return active_ ? source.next(example_.cursor) : data::Cursor{number_, 0, 0};
}

void Walker::begin(data::Example example, std::uint64_t seed) {
  example_ = std::move(example);
  flood_.begin(seed, move_stream(example_.cursor));
  active_ = true;
}

void Walker::resume(data::Example example, std::uint64_t seed, std::int64_t move, View<const float, 3> canvas) {
  example_ = std::move(example);
  flood_.resume(seed, move_stream(example_.cursor), move, canvas);
  active_ = true;
}

std::optional<Box> Walker::advance() { return active_ ? flood_.advance() : std::nullopt; }

bool Walker::crop(const Box& box, View<float, 3> out_image, View<float, 3> out_logits, View<float, 3> out_labels,
                  View<float, 3> out_weights) const {
  copy_box<float>(example_.image.view(), box, out_image);
  copy_box<float>(flood_.canvas(), box, out_logits);
  copy_box<float>(example_.labels.view(), box, out_labels);
  if (example_.weights.size() == 0) return false;
  copy_box<float>(example_.weights.view(), box, out_weights);
  return true;
}

void Walker::update(const Box& box, View<const float, 3> logits) { paste_box<float>(logits, flood_.canvas(), box); }

std::string Walker::describe(const Box& box, const data::ExampleSource& source) const {
  Vec3 offset;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    offset[axis] = box.start[axis] + box.size[axis] / 2 - example_.image.shape()[axis] / 2;
  }
  return str_cat("volume '", source.sources()[static_cast<std::size_t>(example_.centre.volume)].options().name,
                 "', example centred at ", Show{example_.centre.position}, ", move ", Show{offset});
}

}  // namespace floodtide::train
