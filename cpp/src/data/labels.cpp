// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/labels.hpp"

#include <algorithm>
#include <optional>

#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

/// Return a stored value as a text. Values of uint64 volumes have kept their bits.
std::string text_of(std::int64_t value, ElementType type) {
  return type == ElementType::uint64 ? std::to_string(static_cast<std::uint64_t>(value)) : std::to_string(value);
}

std::string listed(const LabelMap& map) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(map.values.size(), 8); ++i) {
    text += str_cat(i == 0 ? "" : ", ", map.values[i].first);
  }
  return map.values.size() > 8 ? text + ", ..." : text;
}

}  // namespace

bool means_no_label(std::int64_t value, ElementType type) noexcept {
  constexpr std::int64_t kLargest32 = (std::int64_t{1} << 32) - 1;
  if (type == ElementType::uint64) return value == kLargest32 || (value >= -3 && value < 0);
  return value == kLargest32 || value < 0;
}

void require_same_shape(const Volume& volume, const Volume& first) {
  FLOODTIDE_REQUIRE(volume.shape() == first.shape(), shape_mismatch, volume.name(), ": has shape ", Show{volume.shape()}, ", ",
                    first.name(), " has ", Show{first.shape()});
}

Tensor<std::int64_t, 3> read_objects(const Volume& labels, const Box& box) {
  Tensor<std::int64_t, 3> result = labels.read_block<std::int64_t>(box);
  for (std::int64_t& label : result.span()) {
    if (means_no_label(label, labels.type())) label = 0;
  }
  return result;
}

Labels::Labels(std::vector<Part> parts, const Vec3& start) : parts_(std::move(parts)), box_{start, {}} {
  FLOODTIDE_REQUIRE(!parts_.empty(), invalid_argument, "labels: no volume given");
  for (Part& part : parts_) {
    auto& values = part.map.values;
    std::sort(values.begin(), values.end());
    const auto twice = std::adjacent_find(values.begin(), values.end(), [](auto a, auto b) { return a.first == b.first; });
    const VolumePtr& volume = volumes_.emplace_back(part.volume.open(kPatchCacheBytes));
    FLOODTIDE_REQUIRE(twice == values.end(), invalid_argument, volume->name(), ": value ", twice->first,
                      " has two labels, expected one");
    require_same_shape(*volume, *volumes_.front());
  }
  box_.size = volumes_.front()->shape();
}

Tensor<std::int64_t, 3> Labels::read_part(std::size_t part, const Box& stored) const {
  const Volume& volume = *volumes_[part];
  const LabelMap& map = parts_[part].map;
  Tensor<std::int64_t, 3> labels = volume.read_block<std::int64_t>(stored);
  std::optional<std::int64_t> known;  // the last value that was looked up: neighbours are mostly equal
  std::int64_t meant = kNoLabel;
  for (std::int64_t flat = 0; flat < labels.size(); ++flat) {
    std::int64_t& value = labels.data()[flat];
    if (value == known) {
      value = meant;
      continue;
    }
    known = value;
    const auto found = std::lower_bound(map.values.begin(), map.values.end(), value,
                                        [](const auto& pair, std::int64_t wanted) { return pair.first < wanted; });
    if (found != map.values.end() && found->first == value) {
      value = found->second;
    } else if (means_no_label(value, volume.type())) {
      value = kNoLabel;
    } else if (map.others == LabelMap::kRefuse) {
      const std::string shown = text_of(value, volume.type());
      raise(ErrorCode::invalid_file, volume.name(), ": value ", shown, " at ",
            Show{stored.start + position_of(flat, stored.size)}, " (z, y, x) is no class, expected ", listed(map),
            "; accept it by task.classes = { ..., ", shown, " = \"NAME\" }, or by data.unlabelled = ", shown,
            " if such voxels are not annotated");
    } else if (map.others != LabelMap::kKeep) {
      value = map.others;
    }
    meant = value;
  }
  return labels;
}

Tensor<std::int64_t, 3> Labels::read(const Box& box, const Box& region) const {
  const Box inside = intersection(intersection(box, region), box_);
  if (inside != box) {
    Tensor<std::int64_t, 3> result(box.size);
    std::fill_n(result.data(), result.size(), kNoLabel);
    if (inside.voxels() == 0) return result;
    const Tensor<std::int64_t, 3> labels = read(inside, region);
    paste_box<std::int64_t>(labels.view(), result.view(), {inside.start - box.start, inside.size});
    return result;
  }
  const Box stored{box.start - box_.start, box.size};
  Tensor<std::int64_t, 3> labels = read_part(0, stored);
  for (std::size_t part = 1; part < parts_.size(); ++part) {
    const Tensor<std::int64_t, 3> more = read_part(part, stored);
    for (std::int64_t flat = 0; flat < labels.size(); ++flat) {
      std::int64_t& label = labels.data()[flat];
      const std::int64_t other = more.data()[flat];
      FLOODTIDE_REQUIRE(!is_object(label) || !is_object(other), invalid_file, volumes_[part]->name(),
                        ": the masks of data.volumes.masks overlap at ", Show{stored.start + position_of(flat, stored.size)},
                        " (z, y, x): class ", other, " here, class ", label,
                        " in an earlier mask; expected masks without common voxels");
      if (other != 0 && label != kNoLabel) label = other;
    }
  }
  return labels;
}

}  // namespace floodtide::data
