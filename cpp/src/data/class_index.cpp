// SPDX-License-Identifier: Apache-2.0
#include "data/class_index.hpp"

#include <algorithm>

#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

using Histogram = std::array<std::int64_t, 256>;

Histogram histogram_of(const Tensor<std::uint8_t, 3>& values) {
  Histogram histogram{};
  for (const std::uint8_t value : values.span()) ++histogram[value];
  return histogram;
}

}  // namespace

ClassIndex::ClassIndex(std::vector<std::string> names, std::span<const Box> boxes, Read read, const Vec3& block,
                       const Progress& progress)
    : names_(std::move(names)), read_(std::move(read)), first_block_{0} {
  for (const Box& box : boxes) {
    grids_.emplace_back(box, block);
    first_block_.push_back(first_block_.back() + grids_.back().size());
  }
  std::vector<Histogram> histograms(static_cast<std::size_t>(blocks()));
  parallel_batches(0, blocks(), progress, [this, &histograms](std::int64_t number) {
    const Block where = this->block(number);
    histograms[static_cast<std::size_t>(number)] = histogram_of(read_(where.number, where.box));
  });
  for (int value = 0; value < kNoClass; ++value) {
    std::vector<std::int64_t> sums{0};
    for (const Histogram& histogram : histograms) sums.push_back(sums.back() + histogram[static_cast<std::size_t>(value)]);
    if (sums.back() == 0) continue;
    classes_.push_back(value);
    sums_[static_cast<std::size_t>(value)] = std::move(sums);
  }
}

const std::vector<std::int64_t>& ClassIndex::sums(int partition_class) const {
  return sums_.at(static_cast<std::size_t>(partition_class));
}

std::int64_t ClassIndex::count(int partition_class) const {
  return sums(partition_class).empty() ? 0 : sums(partition_class).back();
}

std::int64_t ClassIndex::count_in(std::int64_t number) const {
  const auto box = static_cast<std::size_t>(number);
  std::int64_t result = 0;
  for (const int value : classes_) result += before(value, first_block_[box + 1]) - before(value, first_block_[box]);
  return result;
}

ClassIndex::Block ClassIndex::block(std::int64_t number) const {
  const auto after = std::upper_bound(first_block_.begin(), first_block_.end(), number);
  const auto box = static_cast<std::size_t>(after - first_block_.begin() - 1);
  return {static_cast<std::int64_t>(box), grids_[box][number - first_block_[box]]};
}

std::int64_t ClassIndex::before(int partition_class, std::int64_t block) const {
  return sums(partition_class)[static_cast<std::size_t>(block)];
}

Centre ClassIndex::find(int partition_class, std::int64_t k) const {
  const std::vector<std::int64_t>& voxels = sums(partition_class);
  FLOODTIDE_ASSERT(k >= 0 && k < voxels.back());
  const std::int64_t number = std::upper_bound(voxels.begin(), voxels.end(), k) - voxels.begin() - 1;
  const Block where = block(number);
  const Tensor<std::uint8_t, 3> values = read_(where.number, where.box);
  const Histogram found = histogram_of(values);
  for (int value = 0; value < kNoClass; ++value) {
    const std::int64_t counted = sums(value).empty() ? 0 : before(value, number + 1) - before(value, number);
    FLOODTIDE_REQUIRE(found[static_cast<std::size_t>(value)] == counted, invalid_file,
                      names_[static_cast<std::size_t>(where.number)], ": the block at ", Show{where.box.start}, " of size ",
                      Show{where.box.size}, " (z, y, x) has ", found[static_cast<std::size_t>(value)], " voxels of class ",
                      value, ", it had ", counted,
                      " when the classes were counted; expected a volume that does not change while it is used");
  }
  std::int64_t left = k - before(partition_class, number);
  std::int64_t flat = 0;
  while (values.data()[flat] != partition_class || left-- > 0) ++flat;  // counted above
  return {where.number, where.box.start + position_of(flat, where.box.size)};
}

ClassIndex partition_index(std::span<const Source> sources, const Vec3& patch_size, const Progress& progress) {
  std::vector<std::string> names;
  std::vector<Box> boxes;
  std::vector<const Volume*> volumes;  // which do not move with their source
  for (const Source& source : sources) {
    boxes.push_back(source.centres(patch_size));
    volumes.push_back(&source.partitions());
    names.push_back(volumes.back()->name());
  }
  const auto read = [volumes = std::move(volumes)](std::int64_t number, const Box& part) {
    return volumes[static_cast<std::size_t>(number)]->read_block<std::uint8_t>(part);
  };
  return {std::move(names), boxes, read, {64, 64, 64}, progress};
}

}  // namespace floodtide::data
