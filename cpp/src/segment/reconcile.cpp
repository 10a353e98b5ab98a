// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/reconcile.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "floodtide/base/error.hpp"

namespace floodtide::segment {
namespace {

/// Return whether `common` voxels of segments with `a` and `b` voxels make them one object.
bool agree(std::int64_t common, std::int64_t a, std::int64_t b, const Agreement& rule) {
  if (common < rule.min_voxels) return false;
  const double voxels = static_cast<double>(common);
  const double of_smaller = voxels / static_cast<double>(std::min(a, b)),
               of_larger = voxels / static_cast<double>(std::max(a, b));
  if (of_larger >= rule.min_share) return true;
  return rule.inside_voxels > 0 && common >= rule.inside_voxels && of_smaller >= kInsideShare && of_larger >= kInsideOfOther;
}

}  // namespace

Seam compare_overlap(std::span<const evaluate::ContingencyTable::Entry> counts, const Agreement& rule) {
  FLOODTIDE_REQUIRE(rule.min_voxels >= 1, invalid_argument, "reconcile: min_voxels is ", rule.min_voxels,
                    ", expected at least 1");
  FLOODTIDE_REQUIRE(rule.min_share > 0.0 && rule.min_share <= 1.0, invalid_argument, "reconcile: min_share is ", rule.min_share,
                    ", expected more than 0 and at most 1");
  FLOODTIDE_REQUIRE(rule.inside_voxels >= 0, invalid_argument, "reconcile: inside_voxels is ", rule.inside_voxels,
                    ", expected at least 0");
  std::map<std::uint64_t, std::int64_t> first, second;  // voxels of each segment
  for (const auto& [a, b, voxels] : counts) {
    if (a == 0 || b == 0) continue;
    first[a] += voxels;
    second[b] += voxels;
  }
  Seam seam;
  std::set<std::uint64_t> first_alone, second_alone;
  for (const auto& [a, voxels] : first) {
    if (voxels >= rule.min_voxels) first_alone.insert(a);
  }
  for (const auto& [b, voxels] : second) {
    if (voxels >= rule.min_voxels) second_alone.insert(b);
  }
  for (const auto& [a, b, voxels] : counts) {
    if (a == 0 || b == 0 || !agree(voxels, first[a], second[b], rule)) continue;
    seam.same.emplace_back(a, b);
    first_alone.erase(a);
    second_alone.erase(b);
  }
  seam.split = static_cast<std::int64_t>(first_alone.size() + second_alone.size());
  return seam;
}

}  // namespace floodtide::segment
