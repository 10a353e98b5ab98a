// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace floodtide::evaluate {

/// Scores of how well two labellings of the same voxels agree. All scores are NaN if there is no voxel to compare.
struct PartitionScores {
  std::int64_t voxels = 0;    ///< number of voxels compared
  std::int64_t segments = 0;  ///< number of different ids of the segmentation in these voxels
  std::int64_t objects = 0;   ///< number of different ids of the truth in these voxels
  double adapted_rand_error;  ///< 1 - F-score of precision and recall below: 0 is perfect, 1 is the worst
  double rand_precision;      ///< share of the voxel pairs in one segment that are also in one object; mergers lower it
  double rand_recall;         ///< share of the voxel pairs in one object that are also in one segment; splits lower it
  double voi_split;           ///< H(segmentation | truth) in bits; splits raise it
  double voi_merge;           ///< H(truth | segmentation) in bits; mergers raise it
  double cremi;               ///< geometric mean of the adapted Rand error and of voi_split + voi_merge (CREMI challenge, 2016)
};

/// Scores of a segmentation compared with the truth. Voxels with truth 0 are excluded from all scores.
struct SegmentationScores {
  PartitionScores segmented;  ///< scores of the voxels that the segmentation labels
  PartitionScores all;        ///< scores of all voxels; unlabelled voxels count as one segment
  double coverage;            ///< share of the voxels that the segmentation labels
};

/// Two labellings compared under a one-to-one matching of their ids.
struct Matching {
  std::int64_t voxels = 0;       ///< number of voxels
  std::int64_t same_voxels = 0;  ///< voxels that have no id in both labellings, or ids that are matched
  std::int64_t segments = 0;     ///< number of ids of the segmentation
  std::int64_t objects = 0;      ///< number of ids of the truth
  std::int64_t identical = 0;    ///< matched pairs that have the same voxels
};

/// Sparse table of the number of voxels of each pair (segment, object). Id 0 means "none" in both labellings.
///
/// Tables of parts can be added. A volume of any size can therefore be read in blocks, and the tables of several ranks can be
/// merged.
class ContingencyTable {
 public:
  struct Entry {
    std::uint64_t segment;
    std::uint64_t object;
    std::int64_t count;
    bool operator==(const Entry&) const = default;
  };

  /// A pair of ids, for hash tables.
  struct Pair {
    std::uint64_t segment;
    std::uint64_t object;
    bool operator==(const Pair&) const = default;
  };
  struct PairHash {
    std::size_t operator()(const Pair& pair) const noexcept;
  };

  /// Count voxels. segmentation[i] and truth[i] belong to the same voxel. Throws Error(shape_mismatch) if sizes differ.
  void add(std::span<const std::uint64_t> segmentation, std::span<const std::uint64_t> truth);
  /// Add the counts of another table, for example the entries() of another rank. Throws Error(invalid_argument) for a count
  /// below 1.
  void add(std::span<const Entry> entries);

  /// Return all pairs with their counts, ordered by (segment, object). Pairs with truth 0 are included.
  [[nodiscard]] std::vector<Entry> entries() const;

  /// Return the scores of all voxels added so far. The result does not depend on the order of additions, bit for bit.
  /// Source: adapted Rand error of the SNEMI3D challenge (Arganda-Carreras et al., Front. Neuroanat. 2015), without pairs of a
  /// voxel with itself; Meila, "Comparing clusterings", J. Multivariate Analysis 2007.
  [[nodiscard]] SegmentationScores scores() const;

  /// Return how much the labellings have in common if ids are matched one to one: pairs with more common voxels first, of equal
  /// ones that with the smaller ids. Unlike in scores(), voxels with truth 0 count.
  [[nodiscard]] Matching matching() const;

 private:
  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
};

}  // namespace floodtide::evaluate
