// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "floodtide/data/volume.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// How a segment came about.
struct Origin {
  std::int64_t id;
  Vec3 start;               ///< its seed
  std::int64_t iterations;  ///< evaluations of the network
  std::int64_t voxels;      ///< size of the segment
  double walltime_s;
};

/// Voxels that a new segment claimed although an earlier one has them.
struct Overlap {
  std::int64_t id;
  std::int64_t earlier_id;
  std::int64_t voxels;
};

/// Event counts and times in milliseconds, named as google/ffn's.
using Counters = std::map<std::string, std::int64_t, std::less<>>;

/// A segmented box of a volume.
struct Result {
  Tensor<std::int32_t, 3> labels;  ///< [z, y, x] ids from 1, 0 where there is no segment
  Vec3 start{};                    ///< where the box begins in the whole volume
  Vec3 volume_shape{};             ///< size of the whole volume
  std::vector<Origin> origins;     ///< in order of ids; starts count from the whole volume
  std::vector<Overlap> overlaps;
  Counters counters;
};

/// Writes an HDF5 file: the labels as `dataset`, in the smallest unsigned type that holds them, with the attributes
/// box_start, box_size, volume_shape (z, y, x) and the texts of `notes`; groups `origins` and `overlaps` with one dataset a
/// column, and a group `counters` with one attribute each. Takes the name `path` only when everything is on disk; what a file
/// of that name may lose is said at data::Hdf5Result. Throws Error(io) if it cannot be written.
void write(const Result& result, const std::string& path, const std::string& dataset,
           const std::map<std::string, std::string>& notes);

/// Throws what write() would throw for the output, before there is a result.
void check_output(const std::string& path, const std::string& dataset);

/// Where a volume lies in a larger one: its attribute box_start, if it has one.
/// Throws Error(invalid_file) if that is not three integers.
[[nodiscard]] std::optional<Vec3> placement(const data::Volume& volume);

}  // namespace floodtide::segment
