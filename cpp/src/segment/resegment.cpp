// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/resegment.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/distance.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/limits.hpp"

namespace floodtide::segment {
namespace {

constexpr Limits kRadius{0, std::int64_t{1} << 40};  // voxels

enum Owner : std::uint8_t { kEmpty, kA, kB, kOther };

/// Return the voxels of `whole` within `radius` of `centre` along each axis.
Box around(const Vec3& centre, const Vec3& radius, const Box& whole) {
  return intersection(Box{centre, {1, 1, 1}}.grown(radius), whole);
}

/// Return the largest distance in a mask to a voxel outside of it; the diagonal of the box if there is none.
double largest_distance(const Tensor<std::uint8_t, 3>& mask, const std::array<double, 3>& voxel_size) {
  Tensor<std::uint8_t, 3> outside(mask.shape());
  for (std::int64_t i = 0; i < mask.size(); ++i) outside.data()[i] = mask.data()[i] == 0 ? 1 : 0;
  const Tensor<double, 3> squared = data::squared_distance(outside.view(), voxel_size);
  const double largest = squared.size() == 0 ? 0.0 : *std::ranges::max_element(squared.span());
  if (largest >= 0.0) return std::sqrt(largest);
  double diagonal = 0.0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const double edge = voxel_size[axis] * static_cast<double>(mask.shape()[axis]);
    diagonal += edge * edge;
  }
  return std::sqrt(diagonal);
}

/// The two segments on a canvas.
class Pair {
 public:
  Pair(Flooder& flooder, View<const std::uint64_t, 3> labels, std::uint64_t a, std::uint64_t b, const Vec3& point,
       const ResegmentOptions& options)
      : flooder_(flooder),
        options_(options),
        owner_(flooder.image().shape()),
        point_(point + flooder.options().halo_low),
        interior_{flooder.options().halo_low, labels.shape()},
        analysis_(around(point_, options.analysis_radius, interior_)) {
    Tensor<std::int64_t, 3> obstacles(labels.shape());
    for_each_voxel({{}, labels.shape()}, [&](const Vec3& voxel) {
      const std::uint64_t label = labels.at(voxel);
      const Owner owner = label == 0 ? kEmpty : label == a ? kA : label == b ? kB : kOther;
      owner_.view().at(voxel + interior_.start) = owner;
      obstacles.view().at(voxel) = owner == kOther ? 1 : 0;
    });
    flooder_.set_initial(std::as_const(obstacles).view());
  }

  [[nodiscard]] std::int64_t voxels_of(Owner owner) const {
    std::int64_t count = 0;
    for_each_voxel(analysis_, [&](const Vec3& voxel) { count += owner_.view().at(voxel) == owner ? 1 : 0; });
    return count;
  }
  [[nodiscard]] double max_distance_of(Owner owner) const {
    Tensor<std::uint8_t, 3> mask(analysis_.size);
    for_each_voxel(analysis_, [&](const Vec3& voxel) {
      mask.view().at(voxel - analysis_.start) = owner_.view().at(voxel) == owner ? 1 : 0;
    });
    return largest_distance(mask, options_.voxel_size);
  }

  /// Flood from inside a segment. `object` gets the voxels of the object, within the analysis radius.
  std::optional<Regrown> regrow(Owner owner, Tensor<std::uint8_t, 3>& object) {
    Tensor<double, 3> depth = depths(owner);
    const auto segment_logit =
        static_cast<float>(flood::google_ffn_logit(flooder_.options().segment_threshold, "segment: segment_threshold"));
    const std::int64_t own = voxels_of(owner);
    Regrown found;
    for (; found.attempts < options_.attempts && !found.recovered; ++found.attempts) {
      const auto deepest = std::ranges::max_element(depth.span());
      if (*deepest <= 0.0) break;
      const std::int64_t index = deepest - depth.span().begin(), plane = depth.shape()[1] * depth.shape()[2];
      const Vec3 seed{index / plane, index % plane / depth.shape()[2], index % depth.shape()[2]};
      exclude(depth, seed, options_.exclusion_radius);
      found.deleted = 0;
      flooder_.segment_at(seed, [&](const Move& move) {
        if (analysis_.contains(move.position)) found.deleted += deleted_voxels(move);
      });
      found.start = seed - interior_.start;
      std::int64_t recovered = 0;
      for_each_voxel(analysis_, [&](const Vec3& voxel) {
        recovered += owner_.view().at(voxel) == owner && flooder_.logits().at(voxel) >= segment_logit ? 1 : 0;
      });
      found.recovered = static_cast<double>(recovered) >= options_.recovery * static_cast<double>(own);
    }
    if (found.attempts == 0) return std::nullopt;
    measure(found, object);
    return found;
  }

 private:
  /// Return the squared distance to the surface of a segment, where a seed may lie, else 0.
  [[nodiscard]] Tensor<double, 3> depths(Owner owner) const {
    Tensor<std::uint8_t, 3> outside(owner_.shape());
    for (std::int64_t i = 0; i < owner_.size(); ++i) outside.data()[i] = owner_.data()[i] == owner ? 0 : 1;
    Tensor<double, 3> depth = data::squared_distance(outside.view(), options_.voxel_size);
    const Vec3 margin = flooder_.margin();
    for_each_voxel({{}, depth.shape()}, [&](const Vec3& voxel) {
      double& value = depth.view().at(voxel);
      if (value < 0.0) value = std::numeric_limits<double>::infinity();  // the segment fills the image
      for (std::size_t axis = 0; axis < 3; ++axis) {
        if (voxel[axis] < margin[axis] || voxel[axis] + margin[axis] >= depth.shape()[axis]) value = 0.0;
      }
    });
    if (options_.point_exclusion) exclude(depth, point_, *options_.point_exclusion);
    return depth;
  }

  static void exclude(Tensor<double, 3>& depth, const Vec3& centre, const Vec3& radius) {
    for_each_voxel(around(centre, radius, {{}, depth.shape()}), [&](const Vec3& voxel) { depth.view().at(voxel) = 0.0; });
  }

  void measure(Regrown& found, Tensor<std::uint8_t, 3>& object) const {
    object = Tensor<std::uint8_t, 3>(analysis_.size);
    std::int64_t of_a = 0, of_b = 0;
    for_each_voxel(analysis_, [&](const Vec3& voxel) {
      if (!(flooder_.logits().at(voxel) >= 0.0F)) return;  // NaN: no field of view was here
      object.view().at(voxel - analysis_.start) = 1;
      ++found.voxels;
      const auto owner = static_cast<Owner>(owner_.view().at(voxel));
      of_a += owner == kA ? 1 : 0;
      of_b += owner == kB ? 1 : 0;
    });
    found.share_of_a = static_cast<double>(of_a) / static_cast<double>(voxels_of(kA));
    found.share_of_b = static_cast<double>(of_b) / static_cast<double>(voxels_of(kB));
    found.max_distance = largest_distance(object, options_.voxel_size);
  }

  Flooder& flooder_;
  const ResegmentOptions& options_;
  Tensor<std::uint8_t, 3> owner_;
  Vec3 point_;
  Box interior_;
  Box analysis_;
};

double intersection_over_union(const Tensor<std::uint8_t, 3>& a, const Tensor<std::uint8_t, 3>& b) {
  std::int64_t both = 0, either = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    both += a.data()[i] & b.data()[i];
    either += a.data()[i] | b.data()[i];
  }
  return either == 0 ? 0.0 : static_cast<double>(both) / static_cast<double>(either);
}

}  // namespace

PairScores resegment_pair(Flooder& flooder, View<const std::uint64_t, 3> labels, std::uint64_t a, std::uint64_t b,
                          const Vec3& point, const ResegmentOptions& options) {
  FLOODTIDE_REQUIRE(options.attempts >= 1, invalid_argument, "resegment: ", options.attempts, " attempts, expected at least 1");
  Vec3 expected = flooder.image().shape();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    expected[axis] -= flooder.options().halo_low[axis] + flooder.options().halo_high[axis];
    for (const Vec3& radius : {options.analysis_radius, options.exclusion_radius, options.point_exclusion.value_or(Vec3{})}) {
      require_in(kRadius, radius[axis], "resegment: a radius");
    }
  }
  FLOODTIDE_REQUIRE(labels.shape() == expected, shape_mismatch, "resegment: labels of ", Show{labels.shape()},
                    " voxels (z, y, x), the image has ", Show{expected});
  FLOODTIDE_REQUIRE((Box{{}, labels.shape()}.contains(point)), out_of_range, "resegment: point ", Show{point},
                    " (z, y, x), expected one inside ", Show{labels.shape()});
  Pair pair(flooder, labels, a, b, point, options);
  PairScores scores;
  scores.voxels_a = pair.voxels_of(kA);
  scores.voxels_b = pair.voxels_of(kB);
  FLOODTIDE_REQUIRE(scores.voxels_a > 0 && scores.voxels_b > 0, invalid_argument, "resegment: segment ",
                    scores.voxels_a == 0 ? a : b, " has no voxel within ", Show{options.analysis_radius},
                    " voxels (z, y, x) of the decision point ", Show{point});
  scores.max_distance_a = pair.max_distance_of(kA);
  scores.max_distance_b = pair.max_distance_of(kB);
  const std::int64_t before = flooder.evaluations();
  Tensor<std::uint8_t, 3> object_a, object_b;
  scores.from_a = pair.regrow(kA, object_a);
  const bool hopeless = !scores.from_a || !scores.from_a->recovered || scores.from_a->share_of_b < options.recovery;
  if (!(options.terminate_early && hopeless)) scores.from_b = pair.regrow(kB, object_b);
  if (scores.from_a && scores.from_b) scores.iou = intersection_over_union(object_a, object_b);
  scores.network_calls = flooder.evaluations() - before;
  return scores;
}

}  // namespace floodtide::segment
