// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/partition.hpp"

#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "data/blocks.hpp"
#include "data/partition_block.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/labels.hpp"

namespace floodtide::data {
namespace {

constexpr Vec3 kBlock{128, 128, 128};  // a halo of 24 on each side makes 2.6 times the reads

using Sizes = std::unordered_map<std::int64_t, std::int64_t>;

Box box_of(const Volume& labels, const PartitionOptions& options) {
  const Box box = options.box.value_or(labels.box());
  labels.require_inside(box);
  return box;
}

Box inner_box(const Volume& labels, const Box& box, const Vec3& radius) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    FLOODTIDE_REQUIRE(2 * radius[axis] < box.size[axis], invalid_argument, labels.name(), ": lom radius ", Show{radius},
                      " (z, y, x) leaves no voxel of a box of ", Show{box.size});
  }
  return {box.start + radius, box.size - radius - radius};
}

/// Return the voxels of the box around a voxel.
std::int64_t window(const PartitionOptions& options) { return Box{{}, {1, 1, 1}}.grown(options.lom_radius).voxels(); }

void check(const PartitionOptions& options) {
  const std::vector<double>& thresholds = options.thresholds;
  FLOODTIDE_REQUIRE(!thresholds.empty() && thresholds.size() <= 253, invalid_argument, "partition: ", thresholds.size(),
                    " thresholds given, expected 1 to 253");
  for (std::size_t i = 0; i < thresholds.size(); ++i) {
    FLOODTIDE_REQUIRE(thresholds[i] >= 0 && thresholds[i] <= 1 && (i == 0 || thresholds[i] > thresholds[i - 1]),
                      invalid_argument, "partition: threshold ", thresholds[i],
                      ", expected fractions from 0 to 1 in ascending order");
  }
  for (const std::int64_t radius : options.lom_radius) {
    FLOODTIDE_REQUIRE(radius >= 0 && radius < 1024, invalid_argument, "partition: lom radius ", radius, ", expected 0 to 1023");
  }
  FLOODTIDE_REQUIRE(window(options) < std::numeric_limits<std::uint32_t>::max(), invalid_argument, "partition: lom radius ",
                    Show{options.lom_radius}, " (z, y, x) makes a box of more than 2^32 voxels");
}

void add_sizes(const Tensor<std::int64_t, 3>& labels, Sizes& sizes) {
  const std::span<const std::int64_t> values = labels.span();
  for (std::size_t begin = 0; begin < values.size();) {
    std::size_t end = begin + 1;
    while (end < values.size() && values[end] == values[begin]) ++end;
    sizes[values[begin]] += static_cast<std::int64_t>(end - begin);
    begin = end;
  }
}

}  // namespace

struct PartitionJob::Impl {
  VolumePtr volume;
  const Volume& labels;
  PartitionOptions options;
  Box box;
  Box inner;  ///< voxels whose box lies inside `box`
  BlockGrid counting;
  BlockGrid grid;
  std::vector<std::int64_t> limits;
  std::unordered_set<std::int64_t> kept;
  bool keeps_all;

  Impl(const VolumeReference& reference, const PartitionOptions& given)
      : volume(reference.open()),
        labels(*volume),
        options(given),
        box(box_of(labels, given)),
        inner(inner_box(labels, box, given.lom_radius)),
        counting(box, kBlock),
        grid(inner, kBlock),
        limits(threshold_counts(given.thresholds, window(given))),
        keeps_all(given.min_size < 2) {}

  /// The labels of a block with its halo as numbers 1.. of the objects that are kept; 0 is background.
  [[nodiscard]] Tensor<std::uint32_t, 3> objects(const Box& block, std::uint32_t& out_count) const {
    const Box with_halo = block.grown(options.lom_radius);
    const Tensor<std::int64_t, 3> values = read_objects(labels, with_halo);
    Tensor<std::uint32_t, 3> numbers(with_halo.size);
    std::unordered_map<std::int64_t, std::uint32_t> known;
    std::int64_t last_label = 0;
    std::uint32_t last_number = 0;
    out_count = 0;
    for (std::int64_t i = 0; i < values.size(); ++i) {
      const std::int64_t label = values.data()[i];
      if (label != last_label) {
        last_label = label;
        const bool object = label != 0 && (keeps_all || kept.contains(label));
        const auto [entry, is_new] = known.try_emplace(label, object ? out_count + 1 : 0);
        if (is_new && object) ++out_count;
        last_number = entry->second;
      }
      numbers.data()[i] = last_number;
    }
    return numbers;
  }
};

PartitionJob::PartitionJob(const VolumeReference& labels, const PartitionOptions& options) {
  check(options);
  impl_ = std::make_unique<Impl>(labels, options);
}
PartitionJob::~PartitionJob() = default;

std::int64_t PartitionJob::counting_blocks() const noexcept { return impl_->counting.size(); }
std::int64_t PartitionJob::blocks() const noexcept { return impl_->grid.size(); }
Box PartitionJob::block(std::int64_t number) const { return impl_->grid[number]; }

Tensor<std::int64_t, 2> PartitionJob::count(std::int64_t begin, std::int64_t end, const Progress& progress) const {
  FLOODTIDE_REQUIRE(begin >= 0 && begin <= end && end <= counting_blocks(), out_of_range, "partition: counting blocks ", begin,
                    " to ", end, " of ", counting_blocks());
  Sizes total;
  std::mutex mutex;
  parallel_batches(begin, end, progress, [&](std::int64_t number) {
    Sizes sizes;
    add_sizes(read_objects(impl_->labels, impl_->counting[number]), sizes);
    const std::lock_guard lock(mutex);
    for (const auto& [label, voxels] : sizes) total[label] += voxels;
  });
  const std::map<std::int64_t, std::int64_t> sorted(total.begin(), total.end());
  Tensor<std::int64_t, 2> result({2, std::ssize(sorted)});
  std::int64_t* out = result.data();
  for (const auto& [label, voxels] : sorted) {
    out[0] = label;
    out[sorted.size()] = voxels;
    ++out;
  }
  return result;
}

void PartitionJob::keep_large(const std::vector<View<const std::int64_t, 2>>& parts) {
  Sizes total;
  for (const View<const std::int64_t, 2>& part : parts) {
    FLOODTIDE_REQUIRE(part.shape(0) == 2, shape_mismatch, "label sizes: ", part.shape(0), " rows, expected 2 (labels, voxels)");
    for (std::int64_t i = 0; i < part.shape(1); ++i) total[part(0, i)] += part(1, i);
  }
  std::int64_t counted = 0;
  impl_->kept.clear();
  for (const auto& [label, voxels] : total) {
    counted += voxels;
    if (label != 0 && voxels >= impl_->options.min_size) impl_->kept.insert(label);
  }
  FLOODTIDE_REQUIRE(counted == impl_->box.voxels(), invalid_argument, "partition: sizes of ", counted,
                    " voxels given, the box has ", impl_->box.voxels());
}

std::vector<Tensor<std::uint8_t, 3>> PartitionJob::compute(std::int64_t begin, std::int64_t end) const {
  FLOODTIDE_REQUIRE(begin >= 0 && begin <= end && end <= blocks(), out_of_range, "partition: blocks ", begin, " to ", end,
                    " of ", blocks());
  std::vector<Tensor<std::uint8_t, 3>> results(static_cast<std::size_t>(end - begin));
  parallel_for(end - begin, [&](std::int64_t i) {
    std::uint32_t count = 0;
    const Tensor<std::uint32_t, 3> objects = impl_->objects(block(begin + i), count);
    results[static_cast<std::size_t>(i)] = partition_block(objects.view(), count, impl_->options.lom_radius, impl_->limits);
  });
  return results;
}

}  // namespace floodtide::data
