// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/origins.hpp"

#include <cstddef>

#include "floodtide/base/error.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::segment {
namespace {

constexpr Limits kNumbers{0, std::int64_t{1} << 40};  // ids, calls and positions

/// Return the values of a dataset of 32-bit or 64-bit integers (n rows of `columns`), row-major.
std::vector<std::int64_t> read_numbers(const data::Hdf5File& file, const std::string& dataset, std::int64_t columns) {
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> shape;
  if (file.info(dataset).type == data::ElementType::int32) {
    const data::Array<std::int32_t> stored = file.read_array<std::int32_t>(dataset);
    values.assign(stored.values.begin(), stored.values.end());
    shape = stored.shape;
  } else {
    data::Array<std::int64_t> stored = file.read_array<std::int64_t>(dataset);
    values = std::move(stored.values);
    shape = stored.shape;
  }
  const std::size_t axes = columns == 1 ? 1 : 2;
  FLOODTIDE_REQUIRE(shape.size() == axes && (axes == 1 || shape[1] == columns), invalid_file, file.path(), ": ", dataset,
                    " has the shape ", Show{shape}, ", expected rows of ", columns);
  for (const std::int64_t value : values) {
    require_in(kNumbers, value, str_cat(file.path(), ": ", dataset), ErrorCode::invalid_file);
  }
  return values;
}

}  // namespace

std::vector<Origin> read_origins(const std::string& path) {
  const data::Hdf5File file = data::Hdf5File::open(path);
  const std::string calls_name = file.exists("origins/iters") ? "origins/iters" : "origins/iterations";
  const std::vector<std::int64_t> ids = read_numbers(file, "origins/id", 1);
  const std::vector<std::int64_t> calls = read_numbers(file, calls_name, 1);
  const std::vector<std::int64_t> starts = read_numbers(file, "origins/start_zyx", 3);
  FLOODTIDE_REQUIRE(calls.size() == ids.size() && starts.size() == 3 * ids.size(), invalid_file, path, ": origins of ",
                    ids.size(), " ids, ", calls.size(), " numbers of calls and ", starts.size() / 3,
                    " seeds, expected as many of each");
  std::vector<Origin> origins;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    origins.push_back({ids[i], {starts[3 * i], starts[3 * i + 1], starts[3 * i + 2]}, calls[i], 0, 0.0});
  }
  return origins;
}

}  // namespace floodtide::segment
