// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/affinities.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "floodtide/data/axis_map.hpp"
#include "data/purposes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::data {
namespace {

/// A box tiled by patches whose last one along an axis ends with the box.
struct PatchGrid {
  Box box;
  Vec3 patch;
  Vec3 counts;

  PatchGrid(const Box& whole, const Vec3& patch_size) : box(whole), patch(patch_size), counts() {
    for (std::size_t axis = 0; axis < 3; ++axis) counts[axis] = (box.size[axis] + patch[axis] - 1) / patch[axis];
  }
  [[nodiscard]] std::int64_t size() const { return volume<3>(counts); }
  [[nodiscard]] Box operator[](std::int64_t number) const {
    const Vec3 index = index_of(number);
    Box result{{}, patch};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      result.start[axis] = box.start[axis] + std::min(index[axis] * patch[axis], box.size[axis] - patch[axis]);
    }
    return result;
  }
  /// Leading planes of patch `number` along each axis that the one before it has too.
  [[nodiscard]] Vec3 shared(std::int64_t number) const {
    const Vec3 index = index_of(number);
    Vec3 result{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      result[axis] = std::max<std::int64_t>(0, (index[axis] + 1) * patch[axis] - box.size[axis]);
    }
    return result;
  }

 private:
  [[nodiscard]] Vec3 index_of(std::int64_t number) const {
    return {number / (counts[1] * counts[2]), number / counts[2] % counts[1], number % counts[2]};
  }
};

/// Weights so that 0 and 1 weigh about alike for each offset; see AffinityOptions::balance.
void balance_weights(View<const float, 4> targets, View<float, 4> weights) {
  const std::int64_t offsets = targets.shape(3);
  std::vector<std::int64_t> counted(static_cast<std::size_t>(offsets));
  std::vector<std::int64_t> ones(static_cast<std::size_t>(offsets));
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    const auto offset = static_cast<std::size_t>(i % offsets);
    if (weights.data()[i] == 0) continue;
    ++counted[offset];
    if (targets.data()[i] == 1) ++ones[offset];
  }
  std::vector<std::array<float, 2>> weight;
  for (std::size_t offset = 0; offset < ones.size(); ++offset) {
    const double share = static_cast<double>(ones[offset]) / static_cast<double>(std::max<std::int64_t>(counted[offset], 1));
    weight.push_back(
        {static_cast<float>(0.5 / std::clamp(1 - share, 0.05, 0.95)), static_cast<float>(0.5 / std::clamp(share, 0.05, 0.95))});
  }
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    weights.data()[i] *= weight[static_cast<std::size_t>(i % offsets)][targets.data()[i] == 1 ? 1 : 0];
  }
}

/// Weight 0 for the leading planes of each axis.
void discount(const Vec3& planes, View<float, 4> weights) {
  for (std::int64_t z = 0; z < weights.shape(0); ++z) {
    for (std::int64_t y = 0; y < weights.shape(1); ++y) {
      for (std::int64_t x = 0; x < weights.shape(2); ++x) {
        if (z >= planes[0] && y >= planes[1] && x >= planes[2]) continue;
        for (std::int64_t offset = 0; offset < weights.shape(3); ++offset) weights(z, y, x, offset) = 0;
      }
    }
  }
}

}  // namespace

void make_affinities(View<const std::int64_t, 3> labels, std::span<const Vec3> offsets, bool zero_is_boundary,
                     View<float, 4> out_targets, View<float, 4> out_weights) {
  const Shape<4> expected{labels.shape(0), labels.shape(1), labels.shape(2), std::ssize(offsets)};
  FLOODTIDE_REQUIRE(out_targets.shape() == expected && out_weights.shape() == expected, shape_mismatch,
                    "affinities: targets of ", Show{out_targets.shape()}, " and weights of ", Show{out_weights.shape()},
                    ", expected ", Show{expected});
  const Box whole{{}, labels.shape()};
  std::int64_t own_index = 0, out = 0;
  for (std::int64_t z = 0; z < labels.shape(0); ++z) {
    for (std::int64_t y = 0; y < labels.shape(1); ++y) {
      for (std::int64_t x = 0; x < labels.shape(2); ++x, ++own_index) {
        const std::int64_t own = labels.data()[own_index];
        for (const Vec3& offset : offsets) {
          const Vec3 at{z + offset[0], y + offset[1], x + offset[2]};
          const bool inside = whole.contains(at);
          const std::int64_t other = inside ? labels.at(at) : 0;
          out_targets.data()[out] = own != 0 && own == other ? 1.0F : 0.0F;
          out_weights.data()[out] = inside && (zero_is_boundary || (own != 0 && other != 0)) ? 1.0F : 0.0F;
          ++out;
        }
      }
    }
  }
}

struct AffinitySource::Impl {
  AffinityOptions options;
  std::vector<Source> sources;
  std::vector<PatchGrid> grids;
  std::vector<std::int64_t> first_patch{0};  // number of the first patch of each grid, and of all
  std::vector<std::int64_t> first_start{0};  // the same for the positions where a random patch may start
  SampleFormat format;
  std::optional<SampleOrder> order;  // set by the constructor

  /// The volume that number `flat` falls into.
  static std::int64_t volume_of(const std::vector<std::int64_t>& firsts, std::int64_t flat) {
    return std::upper_bound(firsts.begin(), firsts.end(), flat) - firsts.begin() - 1;
  }

  [[nodiscard]] const PatchGrid& grid(std::int64_t volume) const { return grids[static_cast<std::size_t>(volume)]; }

  [[nodiscard]] Sample make(const Place& place, const AxisMap& map) const {
    const Source& source = sources[static_cast<std::size_t>(place.volume)];
    const Tensor<float, 3> image = apply<float>(map, source.read_image(place.box).view());
    const Tensor<std::int64_t, 3> labels = apply<std::int64_t>(map, source.read_labels(place.box).view());
    const Vec3& shape = labels.shape();
    Sample sample;
    sample.group = place.volume;
    sample.image = Tensor<float, 4>({shape[0], shape[1], shape[2], 1});
    std::copy(image.span().begin(), image.span().end(), sample.image.data());
    const Shape<4> size{shape[0], shape[1], shape[2], std::ssize(options.offsets)};
    sample.targets = Tensor<float, 4>(size);
    sample.weights = Tensor<float, 4>(size);
    make_affinities(labels.view(), options.offsets, options.zero_is_boundary, sample.targets.view(), sample.weights.view());
    return sample;
  }

  [[nodiscard]] Place random_place(Philox& random) const {
    std::int64_t flat = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(first_start.back())));
    const std::int64_t number = volume_of(first_start, flat);
    const Box& box = grid(number).box;
    flat -= first_start[static_cast<std::size_t>(number)];
    const std::int64_t columns = box.size[2] - options.patch_size[2] + 1;
    const std::int64_t rows = box.size[1] - options.patch_size[1] + 1;
    return {number,
            {{box.start[0] + flat / (rows * columns), box.start[1] + flat / columns % rows, box.start[2] + flat % columns},
             options.patch_size}};
  }

  [[nodiscard]] Philox random(std::int64_t epoch, std::int64_t number) const {
    return {options.order.seed,
            stream_id(kPatchPurpose, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(number))};
  }
};

AffinitySource::AffinitySource(const std::vector<SourceOptions>& sources, const AffinityOptions& options)
    : impl_(std::make_unique<Impl>()) {
  require_axes(options.permutable_axes, options.reflectable_axes, options.patch_size);
  FLOODTIDE_REQUIRE(!sources.empty(), invalid_argument, "affinities: no volume given");
  FLOODTIDE_REQUIRE(*std::min_element(options.patch_size.begin(), options.patch_size.end()) >= 1, invalid_argument,
                    "patch_size: ", Show{options.patch_size}, " (z, y, x) given, expected sizes above 0");
  FLOODTIDE_REQUIRE(!options.offsets.empty(), invalid_argument, "offsets: none given, expected at least one");
  for (const Vec3& offset : options.offsets) {
    bool fits = offset != Vec3{};
    for (std::size_t axis = 0; axis < 3; ++axis) fits = fits && std::abs(offset[axis]) < options.patch_size[axis];
    FLOODTIDE_REQUIRE(fits, invalid_argument, "offsets: ", Show{offset}, " (z, y, x) for patches of ", Show{options.patch_size},
                      ", expected one that is not 0 and stays inside a patch");
  }
  impl_->options = options;
  for (const SourceOptions& source : sources) {
    const Source& opened = impl_->sources.emplace_back(source);
    std::int64_t starts = 1;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t room = opened.box().size[axis] - options.patch_size[axis] + 1;
      FLOODTIDE_REQUIRE(room >= 1, invalid_argument, opened.image().name(), ": patches of ", Show{options.patch_size},
                        " (z, y, x) do not fit into the box of ", Show{opened.box().size});
      starts *= room;
    }
    impl_->grids.emplace_back(opened.box(), options.patch_size);
    impl_->first_patch.push_back(impl_->first_patch.back() + impl_->grids.back().size());
    impl_->first_start.push_back(impl_->first_start.back() + starts);
  }
  impl_->format = {options.patch_size, std::ssize(options.offsets), false};
  impl_->order.emplace(options.patches.value_or(fixed_size()), options.order, "patches of an epoch");
}

AffinitySource::~AffinitySource() = default;

const AffinityOptions& AffinitySource::options() const noexcept { return impl_->options; }
const SampleFormat& AffinitySource::format() const noexcept { return impl_->format; }
const SampleOrder& AffinitySource::order() const noexcept { return *impl_->order; }
std::int64_t AffinitySource::groups() const noexcept { return std::ssize(impl_->sources); }
std::int64_t AffinitySource::fixed_size() const noexcept { return impl_->first_patch.back(); }

std::string AffinitySource::group_name(std::int64_t group) const {
  FLOODTIDE_REQUIRE(group >= 0 && group < groups(), out_of_range, "volume ", group, " of ", groups());
  return impl_->sources[static_cast<std::size_t>(group)].options().name;
}

AffinitySource::Place AffinitySource::fixed_place(std::int64_t number) const {
  FLOODTIDE_REQUIRE(number >= 0 && number < fixed_size(), out_of_range, "patch ", number, " of ", fixed_size());
  const std::int64_t volume = Impl::volume_of(impl_->first_patch, number);
  return {volume, impl_->grid(volume)[number - impl_->first_patch[static_cast<std::size_t>(volume)]]};
}

AffinitySource::Place AffinitySource::training_place(std::int64_t epoch, std::int64_t number) const {
  Philox random = impl_->random(epoch, number);
  return impl_->random_place(random);
}

Sample AffinitySource::read_fixed(std::int64_t number) const {
  const Place place = fixed_place(number);
  Sample sample = impl_->make(place, {});
  const std::int64_t in_grid = number - impl_->first_patch[static_cast<std::size_t>(place.volume)];
  discount(impl_->grid(place.volume).shared(in_grid), sample.weights.view());
  return sample;
}

Sample AffinitySource::read_training(std::int64_t epoch, std::int64_t number) const {
  Philox random = impl_->random(epoch, number);
  const Place place = impl_->random_place(random);
  const AxisMap map = draw_axis_map(impl_->options.permutable_axes, impl_->options.reflectable_axes, random);
  Sample sample = impl_->make(place, map);
  if (impl_->options.balance) balance_weights(sample.targets.view(), sample.weights.view());
  return sample;
}

}  // namespace floodtide::data
