// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  [[nodiscard]] data::Cursor next_cursor(const data::ExampleSource& source) const;
  [[nodiscard]] const flood::TrainingFlood& flood() const noexcept { return flood_; }

  void begin(data::Example example, std::uint64_t seed);
  void resume(data::Example example, std::uint64_t seed, std::int64_t move, View<const float, 3> canvas);

  /// Return the field of view of the next move, or no value if the walker needs its next example.
  [[nodiscard]] std::optional<Box> advance();
  /// Copies a field of view of image, canvas, labels and weights. If all weights are 1, returns false and does not write
  /// weights.
  bool crop(const Box& box, View<float, 3> out_image, View<float, 3> out_logits, View<float, 3> out_labels,
            View<float, 3> out_weights) const;
  /// Writes updated logits to the canvas.
  void update(const Box& box, View<const float, 3> logits);

  /// Return volume, centre and offset of a field of view as text for messages.
  [[nodiscard]] std::string describe(const Box& box, const data::ExampleSource& source) const;

 private:
  std::int64_t number_;
  flood::TrainingFlood flood_;
  data::Example example_;
  bool active_ = false;
};

}  // namespace floodtide::train
