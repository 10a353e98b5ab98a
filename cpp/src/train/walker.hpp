// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/examples.hpp"
#include "floodtide/flood/training_flood.hpp"

namespace floodtide::train {

/// One stream of training examples: its position in its shard, the current example and the canvas.
class Walker {
 public:
  Walker(std::int64_t number, const flood::TrainingFloodOptions& options) : number_(number), flood_(options) {}

  [[nodiscard]] std::int64_t number() const noexcept { return number_; }
  /// True if the walker has an example.
  [[nodiscard]] bool active() const noexcept { return active_; }
  /// Return the position of the current example. Undefined unless active().
  [[nodiscard]] const data::Cursor& cursor() const noexcept { return example_.cursor; }
  /// Return the position of the next example.
  [[nodiscard]] data::Cursor next_cursor(const data::ExampleSource& source) const {
    return active_ ? source.next(example_.cursor) : data::Cursor{number_, 0, 0};
  }
  [[nodiscard]] const flood::TrainingFlood& flood() const noexcept { return flood_; }

  void begin(data::Example example, std::uint64_t seed) {
    set(std::move(example));
    flood_.begin(seed, move_stream());
  }
  void resume(data::Example example, std::uint64_t seed, std::int64_t move, View<const float, 3> canvas) {
    set(std::move(example));
    flood_.resume(seed, move_stream(), move, canvas);
  }

  /// Return the field of view of the next move, or no value if the walker needs its next example.
  [[nodiscard]] std::optional<Box> advance() { return active_ ? flood_.advance() : std::nullopt; }
  /// Copies a field of view of image, canvas and labels.
  void crop(const Box& box, View<float, 3> out_image, View<float, 3> out_logits, View<float, 3> out_labels) const {
    copy_box<float>(example_.image.view(), box, out_image);
    copy_box<float>(flood_.canvas(), box, out_logits);
    copy_box<float>(example_.labels.view(), box, out_labels);
  }
  /// Writes updated logits to the canvas.
  void update(const Box& box, View<const float, 3> logits) { paste_box<float>(logits, flood_.canvas(), box); }

  /// Return volume, centre and offset of a field of view as text for messages.
  [[nodiscard]] std::string describe(const Box& box, const data::ExampleSource& source) const {
    const Vec3 offset = box.middle() - Box{{}, example_.image.shape()}.middle();
    return str_cat("volume '", source.sources()[static_cast<std::size_t>(example_.centre.volume)].options().name,
                   "', example centred at ", Show{example_.centre.position}, ", move ", Show{offset});
  }

 private:
  void set(data::Example example) {
    example_ = std::move(example);
    active_ = true;
  }
  /// Return the random stream of the order of moves.
  [[nodiscard]] std::uint64_t move_stream() const {
    constexpr std::uint64_t kMoveOrder = 0x6D6F766573;  // purpose of the stream
    const data::Cursor& at = example_.cursor;
    return stream_id(kMoveOrder, stream_id(static_cast<std::uint64_t>(at.walker), static_cast<std::uint64_t>(at.epoch)),
                     static_cast<std::uint64_t>(at.index));
  }

  std::int64_t number_;
  flood::TrainingFlood flood_;
  data::Example example_;
  bool active_ = false;
};

}  // namespace floodtide::train
