// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::flood {

/// log(p / (1 - p)). As google/ffn, whose options hold 32-bit probabilities: p is rounded to float first.
/// Throws Error(invalid_argument) naming `what` unless 0 < p < 1.
[[nodiscard]] double logit(double probability, const char* what);

/// The object-mask logits of one volume, the recurrent state of flooding. Not-a-number marks voxels never visited.
/// Source: google/ffn, inference.Canvas.
class Canvas {
 public:
  /// An unvisited canvas. Allocates; nothing else here does.
  /// @param fov       size of the field of view in voxels, odd on each axis, not larger than `shape`
  /// @param pad_logit what the network sees at unvisited voxels
  Canvas(const Vec3& shape, const Vec3& fov, float pad_logit);

  [[nodiscard]] const Vec3& shape() const noexcept { return logits_.shape(); }
  [[nodiscard]] const Vec3& fov() const noexcept { return fov_; }
  [[nodiscard]] View<const float, 3> logits() const noexcept { return logits_.view(); }
  [[nodiscard]] float operator[](const Vec3& position) const noexcept { return logits_.view().at(position); }

  /// True if a field of view centred at `position` lies inside the canvas.
  [[nodiscard]] bool holds_fov(const Vec3& position) const noexcept;

  /// Makes every voxel unvisited again, then sets the seed. Costs as much as the part that was visited.
  void reset(const Vec3& seed, float seed_logit);
  /// The field of view at `centre`, unvisited voxels as pad_logit.
  void cut(const Vec3& centre, View<float, 3> out_logits) const;
  /// Writes a field of view at `centre`.
  void paste(const Vec3& centre, View<const float, 3> logits);

  /// google/ffn's bias against mergers: once more than `share` of the field of view has logits of at least
  /// `object_logit`, voxels that were visited and below 0 (probability 0.5) keep their old logit where the new one is
  /// higher: what was called background stays background. Changes `out_logits`, the network's answer at `centre`.
  void keep_disconnected(const Vec3& centre, float object_logit, double share, View<float, 3> out_logits) const;

 private:
  Tensor<float, 3> logits_;
  Vec3 fov_;
  float pad_logit_;
  Vec3 touched_begin_;
  Vec3 touched_end_;
};

}  // namespace floodtide::flood
