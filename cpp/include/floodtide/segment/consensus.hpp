// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "floodtide/evaluate/contingency.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Oversegmentation consensus of two segmentations of the same voxels: two voxels have the same id only if both segmentations
/// give them the same id.
///
/// A part is the set of voxels with one pair of ids (a, b). Parts without segment in `a`, and parts of fewer than `min_size`
/// voxels, become 0. Of the parts of a segment of `a`, the largest keeps its id (of equal parts, that with the smallest id of
/// `b`, where 0 counts as an id). The others get new ids above those of `a`, ascending by the id of `b`, then of `a`.
/// Source: google/ffn, consensus.py (CONSENSUS_SPLIT).
class SplitConsensus {
 public:
  /// @param counts voxels of all pairs (segment: id of a, object: id of b), each pair once
  SplitConsensus(std::span<const evaluate::ContingencyTable::Entry> counts, std::int64_t min_size);

  /// Return the largest id of the consensus, or of `a` if that is larger.
  [[nodiscard]] std::uint64_t largest_id() const noexcept { return largest_; }
  /// Return the id of voxels with these ids.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const;

 private:
  std::unordered_map<evaluate::ContingencyTable::Pair, std::uint64_t, evaluate::ContingencyTable::PairHash> ids_;
  std::uint64_t largest_ = 0;
};

/// Return the split consensus of two segmentations [z, y, x] in memory. Values below 0 count as 0.
/// Throws Error(shape_mismatch) if the shapes differ.
[[nodiscard]] Tensor<std::int32_t, 3> split_consensus(View<const std::int32_t, 3> a, View<const std::int32_t, 3> b,
                                                      std::int64_t min_size);

}  // namespace floodtide::segment
