// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "floodtide/base/error.hpp"
#include "floodtide/data/labels.hpp"
#include "floodtide/data/targets.hpp"

namespace floodtide::data {
namespace {

constexpr std::int64_t kDescriptors = 10;
constexpr double kMostDeviation = 1000;  // patches have a margin of three times as many voxels

class Affinities final : public Targets {
 public:
  explicit Affinities(const AffinityTargets& options) : options_(options) {
    FLOODTIDE_REQUIRE(!options.offsets.empty(), invalid_argument, "offsets: none given, expected at least one");
    const auto [z, y, x] = options.descriptors;
    const auto fits = [](double sigma) { return sigma > 0 && sigma <= kMostDeviation; };
    FLOODTIDE_REQUIRE((z == 0 && y == 0 && x == 0) || (fits(z) && fits(y) && fits(x)), invalid_argument, "descriptors: ", z,
                      ", ", y, ", ", x, " (z, y, x) given, expected deviations above 0 and at most ", kMostDeviation,
                      ", or (0, 0, 0) for none");
  }
  [[nodiscard]] std::int64_t outputs() const noexcept override { return offsets() + (descriptors() ? kDescriptors : 0); }

  [[nodiscard]] std::int64_t soft_from() const noexcept override { return offsets(); }

  [[nodiscard]] Vec3 margin(bool training) const noexcept override {
    return by_axis([&](std::size_t axis) {
      auto most = static_cast<std::int64_t>(3 * options_.descriptors[axis] + 0.5);
      if (training) return most;
      for (const Vec3& offset : options_.offsets) most = std::max(most, std::abs(offset[axis]));
      return most;
    });
  }

  [[nodiscard]] Vec3 offset(std::int64_t output) const noexcept override {
    return output < offsets() ? options_.offsets[static_cast<std::size_t>(output)] : Vec3{};
  }

  void check(const Vec3& patch_size) const override {
    for (const Vec3& offset : options_.offsets) {
      bool fits = offset != Vec3{};
      for (std::size_t axis = 0; axis < 3; ++axis) fits = fits && std::abs(offset[axis]) < patch_size[axis];
      FLOODTIDE_REQUIRE(fits, invalid_argument, "offsets: ", Show{offset}, " (z, y, x) for patches of ", Show{patch_size},
                        ", expected one that is not 0 and stays inside a patch");
    }
  }

 private:
  void fill(View<const std::int64_t, 3> labels, bool training, Sample& out_sample) const override {
    const View<float, 4> targets = out_sample.targets.view(), weights = out_sample.weights.view();
    const Vec3 border = margin(training);
    const Box patch{{}, {targets.shape(0), targets.shape(1), targets.shape(2)}};
    const Box known = training ? patch : patch.grown(border);  // where the other voxel of a pair may lie
    const auto label = [&](const Vec3& at) -> const std::int64_t& { return labels.at(at + border); };
    for (std::int64_t channel = 0; channel < offsets(); ++channel) {
      const Vec3& offset = options_.offsets[static_cast<std::size_t>(channel)];
      const std::int64_t step = (offset[0] * labels.shape(1) + offset[1]) * labels.shape(2) + offset[2];
      for_each_voxel(intersection(patch, {known.start - offset, known.size}), [&](const Vec3& at) {
        const std::int64_t *own = &label(at), other = own[step];
        const Shape<4> place{at[0], at[1], at[2], channel};
        targets.at(place) = is_object(*own) && *own == other ? 1.0F : 0.0F;
        weights.at(place) = *own != kNoLabel && other != kNoLabel ? 1.0F : 0.0F;
      });
    }
    if (training && options_.balance) balance(targets, weights);
    if (!descriptors()) return;
    const Tensor<float, 4> described = shape_descriptors(labels, {border, patch.size}, options_.descriptors);
    for_each_voxel(patch, [&](const Vec3& at) {
      for (std::int64_t channel = 0; channel < kDescriptors; ++channel) {
        const Shape<4> place{at[0], at[1], at[2], offsets() + channel};
        targets.at(place) = described.view().at({at[0], at[1], at[2], channel});
        weights.at(place) = is_object(label(at)) ? 1.0F : 0.0F;
      }
    });
  }

  [[nodiscard]] std::int64_t offsets() const noexcept { return std::ssize(options_.offsets); }
  [[nodiscard]] bool descriptors() const noexcept { return options_.descriptors[0] > 0; }

  /// Weights so that 0 and 1 weigh about alike for each offset; see AffinityTargets::balance.
  void balance(View<float, 4> targets, View<float, 4> weights) const {
    const std::int64_t channels = targets.shape(3);
    for (std::int64_t channel = 0; channel < offsets(); ++channel) {
      std::int64_t counted = 0, ones = 0;
      for (std::int64_t i = channel; i < targets.size(); i += channels) {
        if (weights.data()[i] == 0) continue;
        ++counted;
        if (targets.data()[i] == 1) ++ones;
      }
      const double share = static_cast<double>(ones) / static_cast<double>(std::max<std::int64_t>(counted, 1));
      const auto of_zero = static_cast<float>(0.5 / std::clamp(1 - share, 0.05, 0.95));
      const auto of_one = static_cast<float>(0.5 / std::clamp(share, 0.05, 0.95));
      for (std::int64_t i = channel; i < targets.size(); i += channels) {
        weights.data()[i] *= targets.data()[i] == 1 ? of_one : of_zero;
      }
    }
  }

  AffinityTargets options_;
};

}  // namespace

std::unique_ptr<Targets> affinity_targets(const AffinityTargets& options) { return std::make_unique<Affinities>(options); }

}  // namespace floodtide::data
