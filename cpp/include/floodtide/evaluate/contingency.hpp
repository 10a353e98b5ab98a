// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace floodtide::evaluate {

/// How well two labellings of the same voxels agree. Not-a-number where there is no voxel to compare.
struct PartitionScores {
  std::int64_t voxels = 0;    ///< voxels compared
  std::int64_t segments = 0;  ///< different ids of the segmentation among them
  std::int64_t objects = 0;   ///< different ids of the truth among them
  double adapted_rand_error;  ///< 1 - F-score of the two below: 0 is perfect, 1 the worst
  double rand_precision;      ///< of the voxel pairs in one segment, the share in one object; mergers lower it
  double rand_recall;         ///< of the voxel pairs in one object, the share in one segment; splits lower it
  double voi_split;           ///< H(segmentation | truth) in bits; splits raise it
  double voi_merge;           ///< H(truth | segmentation) in bits; mergers raise it
};

/// Scores of a segmentation against truth. Voxels with truth 0 are left out of all of them.
struct SegmentationScores {
  PartitionScores segmented;  ///< voxels that the segmentation labels
  PartitionScores all;        ///< all voxels; the unsegmented ones count as one segment
  double coverage;            ///< share of the voxels that the segmentation labels
};

/// Counts how often each pair (segment, object) meets in a voxel. Sparse; counts of parts add up, so volumes of any size are
/// read block by block, and tables of several ranks are merged. Id 0 means "none" in both labellings.
class ContingencyTable {
 public:
  struct Entry {
    std::uint64_t segment;
    std::uint64_t object;
    std::int64_t count;
    bool operator==(const Entry&) const = default;
  };

  /// Counts voxels: segmentation[i] and truth[i] belong to the same voxel. Throws Error(shape_mismatch) if sizes differ.
  void add(std::span<const std::uint64_t> segmentation, std::span<const std::uint64_t> truth);
  /// Adds counts of another table, for instance another rank's entries().
  void add(std::span<const Entry> entries);

  /// All pairs that occur, truth 0 included, ordered by (segment, object).
  [[nodiscard]] std::vector<Entry> entries() const;

  /// Scores of all voxels added so far. Does not depend on the order of additions, bit for bit.
  /// Source: adapted Rand error of the SNEMI3D challenge (Arganda-Carreras et al., Front. Neuroanat. 2015), pairs counted
  /// without a voxel's pair with itself; Meila, "Comparing clusterings", J. Multivariate Analysis 2007.
  [[nodiscard]] SegmentationScores scores() const;

 private:
  struct Pair {
    std::uint64_t segment;
    std::uint64_t object;
    bool operator==(const Pair&) const = default;
  };
  struct PairHash {
    std::size_t operator()(const Pair& pair) const noexcept;
  };

  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
};

}  // namespace floodtide::evaluate
