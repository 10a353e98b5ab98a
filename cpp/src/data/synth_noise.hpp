// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "data/purposes.hpp"
#include "data/synth_tubes.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Smooth random field: standard normal values on a lattice of `spacing` voxels, interpolated between them. Its standard
/// deviation is about 0.6 on average (interpolation averages lattice values).
class SmoothNoise {
 public:
  SmoothNoise(const Vec3& shape, float spacing, std::uint64_t seed, std::uint64_t field) : scale_(1 / spacing) {
    Vec3 lattice;
    for (std::size_t axis = 0; axis < 3; ++axis)
      lattice[axis] = static_cast<std::int64_t>(static_cast<float>(shape[axis]) * scale_) + 2;
    values_ = Tensor<float, 3>(lattice);
    Philox random(seed, stream_id(kSynthPurpose, 1, field));
    for (float& value : values_.span()) value = static_cast<float>(random.normal());
  }

  /// Return the value at a voxel of the volume.
  [[nodiscard]] float operator()(std::int64_t z, std::int64_t y, std::int64_t x) const {
    const Part a = part(z);
    const Part b = part(y);
    const Part c = part(x);
    const View<const float, 3> v = values_.view();
    const auto along_x = [&](std::int64_t i, std::int64_t j) {
      const float low = v(i, j, c.index);
      return low + c.share * (v(i, j, c.index + 1) - low);
    };
    const auto along_y = [&](std::int64_t i) {
      const float low = along_x(i, b.index);
      return low + b.share * (along_x(i, b.index + 1) - low);
    };
    const float low = along_y(a.index);
    return low + a.share * (along_y(a.index + 1) - low);
  }

 private:
  struct Part {
    std::int64_t index;
    float share;
  };
  [[nodiscard]] Part part(std::int64_t voxel) const {
    const float at = static_cast<float>(voxel) * scale_;
    const auto index = static_cast<std::int64_t>(at);
    const float t = at - static_cast<float>(index);
    return {index, t * t * (3 - 2 * t)};  // smooth at the lattice points
  }

  float scale_;
  Tensor<float, 3> values_;
};

}  // namespace floodtide::data
