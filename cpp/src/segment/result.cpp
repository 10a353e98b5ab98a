// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/result.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/segment/consensus.hpp"

namespace floodtide::segment {
namespace {

constexpr std::int64_t kChunk = 64;  // voxels per side; one chunk of 32-bit ids has 1 MiB
constexpr int kGzip = 4;
constexpr const char* kProbability = "probability";
constexpr Limits kStart{0, std::int64_t{1} << 40};  // positions, ids and calls; as for coordinates in a configuration

data::DatasetOptions storage_of(const Vec3& shape) {
  data::DatasetOptions options;
  for (const std::int64_t side : shape) options.chunks.push_back(std::min(side, kChunk));
  options.gzip = kGzip;
  return options;
}

template <class T>
void write_labels(const Tensor<std::int32_t, 3>& labels, data::Hdf5File& file, const std::string& dataset) {
  Tensor<T, 3> ids(labels.shape());
  std::transform(labels.span().begin(), labels.span().end(), ids.span().begin(),
                 [](std::int32_t label) { return static_cast<T>(label); });
  file.write_array<T>(dataset, labels.shape(), ids.span(), storage_of(labels.shape()));
}

template <class Row, class Value>
void write_column(data::Hdf5File& file, const std::string& name, std::span<const Row> rows, Value Row::* member) {
  std::vector<Value> values;
  for (const Row& row : rows) values.push_back(row.*member);
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(rows.size())};
  file.write_array<Value>(name, shape, values);
}

void write_origins(data::Hdf5File& file, std::span<const Origin> rows) {
  write_column(file, "origins/id", rows, &Origin::id);
  write_column(file, "origins/iterations", rows, &Origin::iterations);
  write_column(file, "origins/voxels", rows, &Origin::voxels);
  write_column(file, "origins/walltime_s", rows, &Origin::walltime_s);
  std::vector<std::int64_t> starts;
  for (const Origin& origin : rows) starts.insert(starts.end(), origin.start.begin(), origin.start.end());
  const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(rows.size()), 3};
  file.write_array<std::int64_t>("origins/start_zyx", shape, starts);
}

void write_triple(data::Hdf5File& file, const std::string& dataset, const std::string& name, const Vec3& values) {
  const std::array<std::int64_t, 1> shape{3};
  file.write_attribute<std::int64_t>(dataset, name, shape, values);
}

/// Return the values of a dataset of 32-bit or 64-bit integers (n rows of `columns`), row-major.
std::vector<std::int64_t> read_numbers(const data::Hdf5File& file, const std::string& dataset, std::int64_t columns) {
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> shape;
  const auto take = [&](const auto& stored) {
    values.assign(stored.values.begin(), stored.values.end());
    shape = stored.shape;
  };
  if (file.info(dataset).type == data::ElementType::int32) {
    take(file.read_array<std::int32_t>(dataset));
  } else {
    take(file.read_array<std::int64_t>(dataset));
  }
  const std::size_t axes = columns == 1 ? 1 : 2;
  FLOODTIDE_REQUIRE(shape.size() == axes && (axes == 1 || shape[1] == columns), invalid_file, file.path(), ": ", dataset,
                    " has the shape ", Show{shape}, ", expected rows of ", columns);
  for (const std::int64_t value : values) {
    require_in(kStart, value, str_cat(file.path(), ": ", dataset), ErrorCode::invalid_file);
  }
  return values;
}

data::Hdf5Result output(const std::string& dataset) {
  return {.command = "floodtide segment",
          .objects = {dataset, kProbability, "origins", "overlaps", "counters"},
          .format = {},
          .described = dataset};
}

}  // namespace

Result consensus(const Result& a, const Result& b, std::int64_t min_size) {
  FLOODTIDE_REQUIRE(a.start == b.start, shape_mismatch, "consensus: segmentations from ", Show{a.start}, " and ", Show{b.start},
                    " (z, y, x), expected the same box");
  Result result{split_consensus(std::as_const(a.labels).view(), std::as_const(b.labels).view(), min_size),
                a.start,
                a.volume_shape,
                {},
                {},
                a.counters};
  for (const auto& [name, value] : b.counters) result.counters[name] += value;
  std::vector<std::int64_t> voxels;
  for (const std::int32_t label : result.labels.span()) {
    if (static_cast<std::size_t>(label) >= voxels.size()) voxels.resize(static_cast<std::size_t>(label) + 1);
    ++voxels[static_cast<std::size_t>(label)];
  }
  result.largest_id = static_cast<std::int64_t>(voxels.size()) - 1;
  if (a.probability.size() > 0) {
    result.probability = Tensor<std::uint8_t, 3>(a.probability.shape());
    for (std::int64_t i = 0; i < a.probability.size(); ++i) {
      result.probability.data()[i] = result.labels.data()[i] > 0 ? a.probability.data()[i] : std::uint8_t{0};
    }
  }
  for (const Origin& origin : a.origins) {
    if (origin.id > result.largest_id || voxels[static_cast<std::size_t>(origin.id)] == 0) continue;
    result.origins.push_back(origin);
    result.origins.back().voxels = voxels[static_cast<std::size_t>(origin.id)];
  }
  return result;
}

void check_output(const std::string& path, const std::string& dataset) { data::Hdf5File::check_output(path, output(dataset)); }

void write(const Result& result, const std::string& path, const std::string& dataset,
           const std::map<std::string, std::string>& notes) {
  auto file = data::Hdf5File::create(path, output(dataset));
  const std::int64_t ids = result.largest_id;
  if (ids <= std::numeric_limits<std::uint8_t>::max()) {
    write_labels<std::uint8_t>(result.labels, file, dataset);
  } else if (ids <= std::numeric_limits<std::uint16_t>::max()) {
    write_labels<std::uint16_t>(result.labels, file, dataset);
  } else {
    write_labels<std::uint32_t>(result.labels, file, dataset);
  }
  if (result.probability.size() > 0) {
    file.write_array<std::uint8_t>(kProbability, result.probability.shape(), result.probability.span(),
                                   storage_of(result.probability.shape()));
    write_triple(file, kProbability, "box_start", result.start);
    file.write_attribute(kProbability, "encoding", std::string("0: no segment; q from 1: probability (q - 0.5) / 255"));
  }
  write_triple(file, dataset, "box_start", result.start);
  write_triple(file, dataset, "box_size", result.labels.shape());
  write_triple(file, dataset, "volume_shape", result.volume_shape);
  for (const auto& [name, text] : notes) file.write_attribute(dataset, name, text);
  write_origins(file, result.origins);
  const std::span<const Overlap> overlaps(result.overlaps);
  write_column(file, "overlaps/id", overlaps, &Overlap::id);
  write_column(file, "overlaps/earlier_id", overlaps, &Overlap::earlier_id);
  write_column(file, "overlaps/voxels", overlaps, &Overlap::voxels);
  file.create_group("counters");
  for (const auto& [name, value] : result.counters) file.write_attribute("counters", name, value);
  file.commit();
}

std::vector<Vec3> read_seeds(const std::string& path) {
  const std::vector<std::int64_t> starts = read_numbers(data::Hdf5File::open(path), "origins/start_zyx", 3);
  std::vector<Vec3> seeds;
  for (std::size_t i = 0; i < starts.size(); i += 3) seeds.push_back({starts[i], starts[i + 1], starts[i + 2]});
  return seeds;
}

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

std::optional<Vec3> placement(const data::Volume& volume) {
  const std::optional<data::Array<std::int64_t>> attribute = volume.integers("box_start");
  if (!attribute) return std::nullopt;
  const std::vector<std::int64_t>& start = attribute->values;
  FLOODTIDE_REQUIRE(start.size() == 3, invalid_file, volume.name(), ": attribute box_start has ", start.size(),
                    " values, expected 3 (z, y, x)");
  for (const std::int64_t first : start) {
    require_in(kStart, first, str_cat(volume.name(), ": attribute box_start"), ErrorCode::invalid_file);
  }
  return Vec3{start[0], start[1], start[2]};
}

}  // namespace floodtide::segment
