// SPDX-License-Identifier: Apache-2.0
// Coordinate files: training centres in a fixed shuffled order, every class of the partition volumes equally often.
//
// HDF5: attributes of "/": `format` = "floodtide coordinates", `version` = 1, `volumes` = names of the volumes, one a line,
// `classes` and `class_counts` = the partition classes and the voxels of each; dataset `centres`, int32 (n, 4), gzip: number of
// the volume, z, y, x in voxels of the full volume.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/data/patches.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// A partition volume and the name under which training knows it.
struct NamedPartitions {
  std::string name;
  VolumeReference partitions;  ///< uint8
};

/// The rows of a coordinates file, made piece by piece so that no list of all need exist. Rows hold every class but 255
/// (class 0 too) equally often: as often as the largest has voxels, smaller ones repeating cyclically; then one seeded
/// permutation. The pieces of a job are the same whoever computes them.
/// Source: google/ffn build_coordinates.py.
class CoordinatesJob {
 public:
  /// Opens the volumes and counts classes at least `margin` (z, y, x) from their faces. Throws as open_volume does, and
  /// Error(invalid_argument) if names repeat, a margin leaves nothing, or no voxel has a class.
  CoordinatesJob(std::vector<NamedPartitions> volumes, const Vec3& margin, std::uint64_t seed, const Progress& progress = {});
  ~CoordinatesJob();
  CoordinatesJob(const CoordinatesJob&) = delete;
  CoordinatesJob& operator=(const CoordinatesJob&) = delete;
  CoordinatesJob(CoordinatesJob&&) = delete;
  CoordinatesJob& operator=(CoordinatesJob&&) = delete;

  [[nodiscard]] std::int64_t size() const noexcept;
  [[nodiscard]] const std::vector<int>& classes() const noexcept;
  [[nodiscard]] std::vector<std::int64_t> class_counts() const;
  /// Rows [begin, end) as (volume, z, y, x). Reads every volume once, on all threads.
  [[nodiscard]] Tensor<std::int32_t, 2> rows(std::int64_t begin, std::int64_t end, const Progress& progress = {}) const;

  /// Starts the file: attributes and the empty dataset, to be filled with write_rows and committed.
  [[nodiscard]] Hdf5File create(const std::string& path) const;
  static void write_rows(Hdf5File& file, std::int64_t begin, View<const std::int32_t, 2> rows);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads coordinate files.
class CoordinatesFile {
 public:
  /// Throws Error(invalid_file) if it is not one.
  explicit CoordinatesFile(const std::string& path);
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] const std::vector<std::string>& volumes() const noexcept { return volumes_; }
  /// Rows [begin, end); `volume` counts in volumes(). Thread-safe.
  [[nodiscard]] std::vector<Centre> read(std::int64_t begin, std::int64_t end) const;

 private:
  Hdf5File file_;
  std::int64_t size_ = 0;
  std::vector<std::string> volumes_;
};

}  // namespace floodtide::data
