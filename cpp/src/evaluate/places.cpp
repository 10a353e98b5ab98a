// SPDX-License-Identifier: Apache-2.0
#include "floodtide/evaluate/places.hpp"

#include "floodtide/base/error.hpp"

namespace floodtide::evaluate {

PairPlaces::PairPlaces(std::span<const Pair> pairs) {
  for (const auto& [segment, object, voxels] : pairs) {
    order_.emplace_back(segment, object);
    places_[{segment, object}] = {voxels / 2, std::nullopt};
  }
}

void PairPlaces::add(std::span<const std::uint64_t> segmentation, std::span<const std::uint64_t> truth, const Box& box) {
  const auto voxels = static_cast<std::size_t>(box.voxels());
  FLOODTIDE_REQUIRE(segmentation.size() == voxels && truth.size() == voxels, shape_mismatch, "evaluate: ", segmentation.size(),
                    " and ", truth.size(), " voxels, expected ", voxels);
  // Neighbouring voxels mostly have the same pair, so that one look-up per run of equal pairs is enough.
  for (std::size_t i = 0; i < voxels;) {
    const std::pair pair{segmentation[i], truth[i]};
    std::size_t end = i + 1;
    while (end < voxels && segmentation[end] == pair.first && truth[end] == pair.second) ++end;
    const auto found = places_.find(pair);
    const auto run = static_cast<std::int64_t>(end - i);
    if (found != places_.end() && !found->second.voxel) {
      Place& place = found->second;
      if (place.before < run) {
        const std::int64_t at = static_cast<std::int64_t>(i) + place.before;
        const std::int64_t plane = box.size[1] * box.size[2];
        place.voxel = Vec3{box.start[0] + at / plane, box.start[1] + at % plane / box.size[2], box.start[2] + at % box.size[2]};
      }
      place.before -= run;
    }
    i = end;
  }
}

std::vector<std::optional<Vec3>> PairPlaces::places() const {
  std::vector<std::optional<Vec3>> found;
  for (const auto& pair : order_) found.push_back(places_.at(pair).voxel);
  return found;
}

}  // namespace floodtide::evaluate
