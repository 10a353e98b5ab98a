// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/result.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "floodtide/base/error.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::segment {
namespace {

constexpr std::int64_t kChunk = 64;  // voxels per side; one chunk of 32-bit ids has 1 MiB
constexpr int kGzip = 4;
constexpr Limits kStart{0, std::int64_t{1} << 40};  // voxels; the same limits as for coordinates in a configuration

template <class T>
void write_labels(const Tensor<std::int32_t, 3>& labels, data::Hdf5File& file, const std::string& dataset) {
  Tensor<T, 3> ids(labels.shape());
  std::transform(labels.span().begin(), labels.span().end(), ids.span().begin(),
                 [](std::int32_t label) { return static_cast<T>(label); });
  data::DatasetOptions options;
  for (const std::int64_t side : labels.shape()) options.chunks.push_back(std::min(side, kChunk));
  options.gzip = kGzip;
  file.write_array<T>(dataset, labels.shape(), ids.span(), options);
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

data::Hdf5Result output(const std::string& dataset) {
  return {.command = "floodtide segment",
          .objects = {dataset, "origins", "overlaps", "counters"},
          .format = {},
          .described = dataset};
}

}  // namespace

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
