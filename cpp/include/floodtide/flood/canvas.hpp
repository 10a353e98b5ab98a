// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::flood {

/// Return log(p / (1 - p)). `probability` is rounded to float first, because google/ffn's options are 32-bit floats.
/// Throws Error(invalid_argument), which names `what`, unless 0 < p < 1.
[[nodiscard]] double google_ffn_logit(double probability, const char* what);

/// Logits of the object mask of one volume: the recurrent state of flooding. NaN marks voxels that were never visited.
/// Source: google/ffn, inference.Canvas.
class Canvas {
 public:
  /// Makes a canvas without visited voxels. Only the constructor allocates memory.
  /// @param fov       size of the field of view in voxels, odd on each axis (Error(invalid_argument) otherwise), and not larger
  ///                  than `shape` (Error(shape_mismatch) otherwise)
  /// @param pad_logit logit that the network sees at unvisited voxels
  Canvas(const Vec3& shape, const Vec3& fov, float pad_logit);

  [[nodiscard]] const Vec3& shape() const noexcept { return logits_.shape(); }
  [[nodiscard]] const Vec3& fov() const noexcept { return fov_; }
  [[nodiscard]] View<const float, 3> logits() const noexcept { return logits_.view(); }
  [[nodiscard]] float operator[](const Vec3& position) const noexcept { return logits_.view().at(position); }

  /// True if a field of view centred at `position` lies inside the canvas.
  [[nodiscard]] bool holds_fov(const Vec3& position) const noexcept;

  /// Mark every voxel as unvisited, then set the logit of the seed. The time is proportional to the visited part of the rows
  /// along x.
  void reset(const Vec3& seed, float seed_logit);
  /// Return the box that the last object has reached: every other voxel is unvisited.
  [[nodiscard]] Box touched() const noexcept;
  /// Calls body(voxel, logit) for all voxels of `box` that the last object may have reached, in row-major order: those between
  /// its first and its last voxel of a row along x. The box must lie inside the canvas. A neuron fills little of its box in a
  /// large volume.
  template <class Body>
  void for_each_touched(const Box& box, const Body& body) const {
    const Box part = intersection(box, touched());
    for (std::int64_t z = part.start[0]; z < part.end()[0]; ++z) {
      for (std::int64_t y = part.start[1]; y < part.end()[1]; ++y) {
        const Reach& row = reach_[row_number(z, y)];
        const std::int64_t end = std::min<std::int64_t>(row.end, part.end()[2]);
        for (std::int64_t x = std::max<std::int64_t>(row.begin, part.start[2]); x < end; ++x) {
          body(Vec3{z, y, x}, logits_.view()(z, y, x));
        }
      }
    }
  }
  /// Mark every voxel as unvisited, then write the logits [z, y, x] of a box, as of an earlier object that has reached it.
  void restore(const Box& touched, View<const float, 3> logits);
  /// Copy the field of view centred at `centre`. Unvisited voxels become pad_logit.
  void cut(const Vec3& centre, View<float, 3> out_logits) const;
  /// Write the logits of the field of view centred at `centre`.
  void paste(const Vec3& centre, View<const float, 3> logits);

  /// Keep background voxels in background: google/ffn's protection against mergers.
  ///
  /// Does nothing unless more than `share` of the voxels of `out_logits`, the network's answer at `centre`, have logits of at
  /// least `object_logit`. Otherwise a visited voxel with an old logit below 0 (probability 0.5) keeps this logit in
  /// `out_logits` if the new logit is higher.
  void keep_disconnected(const Vec3& centre, float object_logit, double share, View<float, 3> out_logits) const;

 private:
  /// The visited part of a row along x.
  struct Reach {
    std::int32_t begin = 0;
    std::int32_t end = 0;
  };

  [[nodiscard]] std::size_t row_number(std::int64_t z, std::int64_t y) const noexcept {
    return static_cast<std::size_t>(z * shape()[1] + y);
  }
  void touch(const Box& box);
  void clear();

  Tensor<float, 3> logits_;
  Vec3 fov_;
  float pad_logit_;
  Vec3 touched_begin_;
  Vec3 touched_end_;
  std::vector<Reach> reach_;  // one for each row (z, y); empty for rows without a visited voxel
};

}  // namespace floodtide::flood
