// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/consensus.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::segment {
namespace {

using Entry = evaluate::ContingencyTable::Entry;

std::vector<std::uint64_t> ids_of(View<const std::int32_t, 3> labels, std::int64_t plane) {
  const std::int64_t count = labels.shape(1) * labels.shape(2);
  std::vector<std::uint64_t> ids(static_cast<std::size_t>(count));
  std::transform(labels.data() + plane * count, labels.data() + (plane + 1) * count, ids.begin(),
                 [](std::int32_t label) { return static_cast<std::uint64_t>(std::max(label, 0)); });
  return ids;
}

}  // namespace

SplitConsensus::SplitConsensus(std::span<const Entry> counts, std::int64_t min_size) {
  std::vector<Entry> parts;
  for (const Entry& entry : counts) {
    largest_ = std::max(largest_, entry.segment);
    if (entry.segment > 0) parts.push_back(entry);
  }
  std::ranges::sort(parts, {}, [](const Entry& part) { return std::tuple(part.object, part.segment); });
  std::unordered_map<std::uint64_t, const Entry*> largest_part;  // of each segment of a
  for (const Entry& part : parts) {
    const Entry*& found = largest_part[part.segment];
    if (found == nullptr || part.count > found->count) found = &part;
  }
  for (const Entry& part : parts) {
    if (part.count < min_size) continue;
    const bool keeps = largest_part[part.segment] == &part;
    ids_[{part.segment, part.object}] = keeps ? part.segment : ++largest_;
  }
}

std::uint64_t SplitConsensus::operator()(std::uint64_t a, std::uint64_t b) const {
  const auto found = ids_.find({a, b});
  return found == ids_.end() ? 0 : found->second;
}

Tensor<std::int32_t, 3> split_consensus(View<const std::int32_t, 3> a, View<const std::int32_t, 3> b, std::int64_t min_size) {
  FLOODTIDE_REQUIRE(a.shape() == b.shape(), shape_mismatch, "consensus: segmentations of ", Show{a.shape()}, " and ",
                    Show{b.shape()}, " voxels, expected equal shapes");
  evaluate::ContingencyTable table;
  for (std::int64_t z = 0; z < a.shape(0); ++z) table.add(ids_of(a, z), ids_of(b, z));
  const std::vector<Entry> counts = table.entries();
  const SplitConsensus consensus(counts, min_size);
  FLOODTIDE_REQUIRE(consensus.largest_id() <= std::numeric_limits<std::int32_t>::max(), unsupported, "consensus: id ",
                    consensus.largest_id(), " does not fit into 31 bits");
  Tensor<std::int32_t, 3> out(a.shape());
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const auto first = static_cast<std::uint64_t>(std::max(a.data()[i], 0));
    const auto second = static_cast<std::uint64_t>(std::max(b.data()[i], 0));
    out.data()[i] = first == 0 ? 0 : static_cast<std::int32_t>(consensus(first, second));
  }
  return out;
}

}  // namespace floodtide::segment
