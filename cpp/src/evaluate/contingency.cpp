// SPDX-License-Identifier: Apache-2.0
#include "floodtide/evaluate/contingency.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <unordered_set>

#include "floodtide/base/error.hpp"

namespace floodtide::evaluate {
namespace {

__extension__ using Int128 = __int128;  // squares of voxel counts need more than 64 bits; exact sums do not depend on the order

/// Sums over the cells of a labelling, or of a pair of labellings. n is the number of voxels in a cell.
struct MarginalSums {
  Int128 pairs = 0;    // ordered pairs of different voxels in the same cell: sum of n (n - 1)
  double n_log_n = 0;  // sum of n log2 n
  std::int64_t voxels = 0;
};

MarginalSums sums_of(std::vector<std::int64_t> counts) {
  std::sort(counts.begin(), counts.end());  // a fixed order of the floating-point sum
  MarginalSums sums;
  for (const std::int64_t n : counts) {
    sums.pairs += static_cast<Int128>(n) * (n - 1);
    sums.n_log_n += static_cast<double>(n) * std::log2(static_cast<double>(n));
    sums.voxels += n;
  }
  return sums;
}

std::vector<std::int64_t> values(const std::unordered_map<std::uint64_t, std::int64_t>& map) {
  std::vector<std::int64_t> out;
  out.reserve(map.size());
  for (const auto& [id, count] : map) out.push_back(count);
  return out;
}

/// Return part / whole, with 0/0 = 1: without any pair of voxels, the labellings agree on all pairs.
double ratio(Int128 part, Int128 whole) { return whole == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(whole); }

PartitionScores scores_of(std::span<const ContingencyTable::Entry> entries, bool segmented_only) {
  std::unordered_map<std::uint64_t, std::int64_t> by_segment;
  std::unordered_map<std::uint64_t, std::int64_t> by_object;
  std::vector<std::int64_t> joint;
  for (const auto& entry : entries) {
    if (entry.object == 0 || (segmented_only && entry.segment == 0)) continue;
    by_segment[entry.segment] += entry.count;
    by_object[entry.object] += entry.count;
    joint.push_back(entry.count);
  }
  PartitionScores scores{};
  scores.segments = static_cast<std::int64_t>(by_segment.size());
  scores.objects = static_cast<std::int64_t>(by_object.size());
  const MarginalSums both = sums_of(std::move(joint));
  scores.voxels = both.voxels;
  if (both.voxels == 0) {
    constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
    scores.adapted_rand_error = scores.rand_precision = scores.rand_recall = kNothing;
    scores.voi_split = scores.voi_merge = scores.cremi = kNothing;
    return scores;
  }
  const MarginalSums segment = sums_of(values(by_segment));
  const MarginalSums object = sums_of(values(by_object));
  const auto voxels = static_cast<double>(both.voxels);
  scores.rand_precision = ratio(both.pairs, segment.pairs);
  scores.rand_recall = ratio(both.pairs, object.pairs);
  scores.adapted_rand_error = 1.0 - ratio(2 * both.pairs, segment.pairs + object.pairs);
  // Equal labellings give two equal sums and thus exactly 0; rounding below 0 is cut off.
  scores.voi_split = std::max(0.0, (object.n_log_n - both.n_log_n) / voxels);
  scores.voi_merge = std::max(0.0, (segment.n_log_n - both.n_log_n) / voxels);
  scores.cremi = std::sqrt(scores.adapted_rand_error * (scores.voi_split + scores.voi_merge));
  return scores;
}

}  // namespace

std::size_t ContingencyTable::PairHash::operator()(const Pair& pair) const noexcept {
  // Finaliser of SplitMix64 (Steele et al., OOPSLA 2014), applied to both ids.
  std::uint64_t x = pair.segment * 0x9e3779b97f4a7c15U + pair.object;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return static_cast<std::size_t>(x ^ (x >> 31U));
}

void ContingencyTable::add(std::span<const std::uint64_t> segmentation, std::span<const std::uint64_t> truth) {
  FLOODTIDE_REQUIRE(segmentation.size() == truth.size(), shape_mismatch, "evaluate: segmentation has ", segmentation.size(),
                    " voxels, truth has ", truth.size());
  // Neighbouring voxels mostly have the same pair, so that one look-up per run of equal pairs is enough.
  for (std::size_t i = 0; i < truth.size();) {
    const Pair pair{segmentation[i], truth[i]};
    std::size_t end = i + 1;
    while (end < truth.size() && segmentation[end] == pair.segment && truth[end] == pair.object) ++end;
    counts_[pair] += static_cast<std::int64_t>(end - i);
    i = end;
  }
}

void ContingencyTable::add(std::span<const Entry> entries) {
  for (const Entry& entry : entries) {
    FLOODTIDE_REQUIRE(entry.count > 0, invalid_argument, "evaluate: count of pair (", entry.segment, ", ", entry.object,
                      ") is ", entry.count, ", expected at least 1");
    counts_[{entry.segment, entry.object}] += entry.count;
  }
}

std::vector<ContingencyTable::Entry> ContingencyTable::entries() const {
  std::vector<Entry> out;
  out.reserve(counts_.size());
  for (const auto& [pair, count] : counts_) out.push_back({pair.segment, pair.object, count});
  std::sort(out.begin(), out.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.segment, a.object) < std::tie(b.segment, b.object); });
  return out;
}

SegmentationScores ContingencyTable::scores() const {
  const std::vector<Entry> all = entries();
  SegmentationScores scores{scores_of(all, true), scores_of(all, false), 0.0};
  scores.coverage = static_cast<double>(scores.segmented.voxels) / static_cast<double>(scores.all.voxels);
  return scores;
}

Matching ContingencyTable::matching() const {
  std::vector<Entry> pairs = entries();
  Matching result;
  std::unordered_map<std::uint64_t, std::int64_t> segments, objects;  // voxels of each id
  for (const Entry& pair : pairs) {
    result.voxels += pair.count;
    if (pair.segment == 0 && pair.object == 0) result.same_voxels += pair.count;
    if (pair.segment > 0) segments[pair.segment] += pair.count;
    if (pair.object > 0) objects[pair.object] += pair.count;
  }
  result.segments = static_cast<std::int64_t>(segments.size());
  result.objects = static_cast<std::int64_t>(objects.size());
  std::ranges::stable_sort(pairs, std::ranges::greater{}, &Entry::count);  // entries() are in order of ids
  std::unordered_set<std::uint64_t> matched_segments, matched_objects;
  for (const Entry& pair : pairs) {
    if (pair.segment == 0 || pair.object == 0) continue;
    if (matched_segments.contains(pair.segment) || matched_objects.contains(pair.object)) continue;
    matched_segments.insert(pair.segment);
    matched_objects.insert(pair.object);
    result.same_voxels += pair.count;
    if (pair.count == segments[pair.segment] && pair.count == objects[pair.object]) ++result.identical;
  }
  return result;
}

}  // namespace floodtide::evaluate
