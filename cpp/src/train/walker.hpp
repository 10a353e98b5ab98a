// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "floodtide/data/examples.hpp"
#include "floodtide/flood/training_flood.hpp"

namespace floodtide::train {

/// One stream of training examples: its place in its shard, the example being flooded and the canvas.
class Walker {
 public:
  Walker(std::int64_t number, const flood::TrainingFloodOptions& options) : number_(number), flood_(options) {}

  [[nodiscard]] std::int64_t number() const noexcept { return number_; }
  /// Whether an example has been begun.
  [[nodiscard]] bool active() const noexcept { return active_; }
  /// The example being flooded; meaningful if active.
  [[nodiscard]] const data::Cursor& cursor() const noexcept { return example_.cursor; }
  /// The example to be begun next.
  [[nodiscard]] data::Cursor next_cursor(const data::ExampleSource& source) const;
  [[nodiscard]] const flood::TrainingFlood& flood() const noexcept { return flood_; }

  void begin(data::Example example, std::uint64_t seed);
  void resume(data::Example example, std::uint64_t seed, std::int64_t move, View<const float, 3> canvas);

  /// The patch box of the next move; none if the walker needs its next example.
  [[nodiscard]] std::optional<Box> advance();
  /// Cuts a field of view out of image, canvas, labels and weights; false (and weights untouched) if all weights are one.
  bool crop(const Box& box, View<float, 3> out_image, View<float, 3> out_logits, View<float, 3> out_labels,
            View<float, 3> out_weights) const;
  /// Writes updated logits to the canvas.
  void update(const Box& box, View<const float, 3> logits);

  /// Volume, centre and offset of a field of view, for messages.
  [[nodiscard]] std::string describe(const Box& box, const data::ExampleSource& source) const;

 private:
  std::int64_t number_;
  flood::TrainingFlood flood_;
  data::Example example_;
  bool active_ = false;
};

}  // namespace floodtide::train
