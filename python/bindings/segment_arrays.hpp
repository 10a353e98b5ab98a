// SPDX-License-Identifier: Apache-2.0
// Positions, logits and counts of voxels as NumPy arrays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "floodtide/evaluate/contingency.hpp"
#include "types.hpp"

namespace floodtide::bindings {

/// Return a NumPy copy of a view, for callbacks that may keep the array.
inline py::array_t<float> copy_of(View<const float, 3> view) {
  Tensor<float, 3> copy(view.shape());
  std::copy(view.span().begin(), view.span().end(), copy.data());
  return to_numpy(std::move(copy));
}

/// Return positions as an array (n, 3).
inline py::array_t<std::int64_t> rows_of(const std::vector<Vec3>& positions) {
  Tensor<std::int64_t, 2> out({static_cast<std::int64_t>(positions.size()), 3});
  for (std::size_t i = 0; i < positions.size(); ++i) std::copy(positions[i].begin(), positions[i].end(), out.data() + 3 * i);
  return to_numpy(std::move(out));
}

/// Return the positions of an array (n, 3).
inline std::vector<Vec3> positions_of(const py::object& rows) {
  const auto view = view_of<const std::int64_t, 2>(rows, "positions");
  FLOODTIDE_REQUIRE(view.shape(1) == 3, invalid_file, "positions of ", view.shape(1), " columns, expected 3 (z, y, x)");
  std::vector<Vec3> positions;
  for (std::int64_t i = 0; i < view.shape(0); ++i) positions.push_back({view(i, 0), view(i, 1), view(i, 2)});
  return positions;
}

/// Return the entries of rows (segment, object, count).
inline std::vector<evaluate::ContingencyTable::Entry> entries_of(const UInt64Array& counts) {
  const auto rows = rows_with<std::uint64_t>(3, counts, "counts");
  std::vector<evaluate::ContingencyTable::Entry> entries;
  for (std::int64_t i = 0; i < rows.shape(0); ++i) {
    entries.push_back({rows(i, 0), rows(i, 1), static_cast<std::int64_t>(rows(i, 2))});
  }
  return entries;
}

}  // namespace floodtide::bindings
