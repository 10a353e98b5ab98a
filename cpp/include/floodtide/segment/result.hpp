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

/// How a segment was found.
struct Origin {
  std::int64_t id;
  Vec3 start;               ///< position of the seed
  std::int64_t iterations;  ///< number of evaluations of the network
  std::int64_t voxels;      ///< size of the segment
  double walltime_s;
};

/// Overlap of the object of a new segment with an earlier segment. The earlier segment keeps the voxels.
struct Overlap {
  std::int64_t id;
  std::int64_t earlier_id;
  std::int64_t voxels;
};

/// Counts of events, and times in milliseconds. Names are those of google/ffn.
using Counters = std::map<std::string, std::int64_t, std::less<>>;

/// Segmentation of a box of a volume.
struct Result {
  Tensor<std::int32_t, 3> labels;  ///< [z, y, x] ids from 1; 0: no segment
  Vec3 start{};                    ///< start of the box in the whole volume
  Vec3 volume_shape{};             ///< size of the whole volume
  std::vector<Origin> origins;     ///< of the segments that were flooded, in order of ids; seed positions in the whole volume
  std::vector<Overlap> overlaps;
  Counters counters;
  std::int64_t largest_id = 0;  ///< no label is larger
  /// [z, y, x] quantised probabilities of the voxels of segments (quantised_probability); empty: not kept.
  Tensor<std::uint8_t, 3> probability{};
};

/// Return the split consensus of two results of one box (consensus.hpp), with the origins of segments of `a` that keep their
/// ids. Counters are sums. Overlaps are left out, because their segments may be split. The probabilities come from `a`.
/// Throws Error(shape_mismatch) if the boxes differ.
[[nodiscard]] Result consensus(const Result& a, const Result& b, std::int64_t min_size);

/// Write a result to an HDF5 file.
///
/// Probabilities, if there are any, become the dataset `probability`. The labels become `dataset`, in the smallest unsigned
/// type that can hold them. Its attributes are box_start, box_size and volume_shape (z, y, x), and the texts of `notes`. The
/// groups `origins` and `overlaps` have one dataset per column. The group `counters` has one attribute per counter.
///
/// The file gets the name `path` only when it is complete on disk. data::Hdf5Result says which existing file may be replaced.
/// Throws Error(io) if the file cannot be written.
void write(const Result& result, const std::string& path, const std::string& dataset,
           const std::map<std::string, std::string>& notes);

/// Check the output before there is a result: throws what write() would throw for `path` and `dataset`.
void check_output(const std::string& path, const std::string& dataset);

/// Return the seeds of a segmentation that write() has written, in the order of ids. Throws Error(invalid_file) if the file
/// holds none, or is damaged.
[[nodiscard]] std::vector<Vec3> read_seeds(const std::string& path);

/// Return id, seed (in voxels of the whole volume) and number of network calls of the segments in an HDF5 file, in the order of
/// the file: what write() has written, or the same of google/ffn in datasets origins/{id,iters,start_zyx}. `voxels` and
/// `walltime_s` are 0.
/// Throws Error(invalid_file) if the file holds none, or is damaged.
[[nodiscard]] std::vector<Origin> read_origins(const std::string& path);

/// Return the start of a volume in a larger volume, (z, y, x): its attribute box_start, or no value without this attribute.
/// Throws Error(invalid_file) if the attribute is not three integers of at least 0.
[[nodiscard]] std::optional<Vec3> placement(const data::Volume& volume);

}  // namespace floodtide::segment
