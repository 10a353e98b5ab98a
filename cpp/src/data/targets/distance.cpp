// SPDX-License-Identifier: Apache-2.0
#include "data/distance.hpp"

#include <cmath>

#include "data/objects.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/labels.hpp"
#include "floodtide/data/targets.hpp"

namespace floodtide::data {
namespace {

constexpr double kFar = 2;            // times the scale: the target is nearly 0 or 1
constexpr double kMostVoxels = 1000;  // of the scale: patches have a margin of twice as many

/// Return 1 for voxels of the object, or with `outside` 1 for all others.
Tensor<std::uint8_t, 3> mask_of(View<const std::int64_t, 3> labels, const Box& box, std::int64_t label, bool outside) {
  Tensor<std::uint8_t, 3> mask(box.size);
  std::uint8_t* out = mask.data();
  for_each_voxel(box, [&](const Vec3& at) { *out++ = (labels.at(at) == label) != outside ? 1 : 0; });
  return mask;
}

class Distance final : public Targets {
 public:
  Distance(double scale, const std::array<double, 3>& voxel_size) : scale_(scale), voxel_size_(voxel_size) {
    for (const double edge : voxel_size) {
      FLOODTIDE_REQUIRE(std::isfinite(edge) && edge > 0 && std::isfinite(scale) && scale > 0, invalid_argument,
                        "distance: scale ", scale, " and an edge of voxels of ", edge, " given, expected numbers above 0");
      FLOODTIDE_REQUIRE(scale <= kMostVoxels * edge, invalid_argument, "distance: scale ", scale, " is ", scale / edge,
                        " voxels of ", edge, ", expected at most ", kMostVoxels);
    }
  }
  [[nodiscard]] std::int64_t outputs() const noexcept override { return 1; }
  [[nodiscard]] std::int64_t soft_from() const noexcept override { return 0; }
  [[nodiscard]] Vec3 margin(bool /*training*/) const noexcept override {
    return by_axis([&](std::size_t axis) { return static_cast<std::int64_t>(std::ceil(kFar * scale_ / voxel_size_[axis])); });
  }

 private:
  void fill(View<const std::int64_t, 3> labels, bool training, Sample& out_sample) const override {
    Tensor<float, 3> signed_distance(labels.shape());
    std::fill_n(signed_distance.data(), signed_distance.size(), 0.0F);
    const Box whole{{}, labels.shape()};
    for (const Object& object : objects_of(labels)) {
      const Box around = intersection(object.box.grown({1, 1, 1}), whole);
      write(labels, around, object.label, mask_of(labels, around, object.label, true), 1, signed_distance.view());
    }
    Tensor<std::uint8_t, 3> objects(labels.shape());
    for (std::int64_t i = 0; i < labels.size(); ++i) objects.data()[i] = is_object(labels.data()[i]) ? 1 : 0;
    write(labels, whole, 0, objects, -1, signed_distance.view());
    const Tensor<double, 3> unknown = squared_distance(mask_of(labels, whole, kNoLabel, false).view(), voxel_size_);
    const Vec3 border = margin(training);
    const View<float, 4> targets = out_sample.targets.view(), weights = out_sample.weights.view();
    for_each_voxel({{}, {targets.shape(0), targets.shape(1), targets.shape(2)}}, [&](const Vec3& at) {
      const Vec3 from = at + border;
      const float distance = signed_distance.view().at(from);
      targets(at[0], at[1], at[2], 0) = 0.5F + 0.5F * std::tanh(distance / static_cast<float>(scale_));
      const double hidden = unknown.view().at(from);
      weights(at[0], at[1], at[2], 0) =
          hidden >= 0 && is_hidden(static_cast<float>(std::sqrt(hidden)), std::abs(distance)) ? 0.0F : 1.0F;
    });
  }

  /// Write the distance to the mask, times `sign`, into the voxels of a label.
  void write(View<const std::int64_t, 3> labels, const Box& box, std::int64_t label, const Tensor<std::uint8_t, 3>& mask,
             float sign, View<float, 3> out) const {
    const Tensor<double, 3> squared = squared_distance(mask.view(), voxel_size_);
    const double* value = squared.data();
    for_each_voxel(box, [&](const Vec3& at) {
      const double distance = *value < 0 ? 1e6 * scale_ : std::sqrt(*value);  // -1: the mask is empty
      ++value;
      if (labels.at(at) == label) out.at(at) = sign * static_cast<float>(distance);
    });
  }

  /// A boundary may lie among voxels without a label that are nearer than the nearest known boundary.
  [[nodiscard]] bool is_hidden(float unknown, float known) const noexcept {
    return unknown <= known && unknown < kFar * scale_;
  }

  double scale_;
  std::array<double, 3> voxel_size_;
};

}  // namespace

std::unique_ptr<Targets> distance_targets(double scale, const std::array<double, 3>& voxel_size) {
  return std::make_unique<Distance>(scale, voxel_size);
}

}  // namespace floodtide::data
