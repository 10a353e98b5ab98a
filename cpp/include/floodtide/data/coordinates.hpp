// SPDX-License-Identifier: Apache-2.0
// Coordinate files: training centres in a fixed random order, with every class of the partition volumes equally often.
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

/// A partition volume, with the name that the configuration of a training has for it.
struct NamedPartitions {
  std::string name;
  VolumeReference partitions;  ///< uint8
};

/// Makes the rows of a coordinates file piece by piece, so that no list of all rows is needed. Every class except 255 occurs
/// equally often, class 0 too: as often as the largest class has voxels. The voxels of smaller classes repeat cyclically. The
/// order is one seeded permutation. Any rank may compute any piece, with the same result.
/// Source: google/ffn build_coordinates.py.
class CoordinatesJob {
 public:
  /// Opens the volumes and counts the classes of voxels that are at least `margin` (z, y, x) away from the faces. Throws the
  /// errors of open_volume(), and Error(invalid_argument) if names repeat, the margin leaves no voxel, or no voxel has a class.
  CoordinatesJob(std::vector<NamedPartitions> volumes, const Vec3& margin, std::uint64_t seed, const Progress& progress = {});
  ~CoordinatesJob();
  CoordinatesJob(const CoordinatesJob&) = delete;
  CoordinatesJob& operator=(const CoordinatesJob&) = delete;
  CoordinatesJob(CoordinatesJob&&) = delete;
  CoordinatesJob& operator=(CoordinatesJob&&) = delete;

  [[nodiscard]] std::int64_t size() const noexcept;
  [[nodiscard]] const std::vector<int>& classes() const noexcept;
  [[nodiscard]] std::vector<std::int64_t> class_counts() const;
  /// Compute the rows [begin, end): (volume, z, y, x). Reads every volume once, on all threads.
  [[nodiscard]] Tensor<std::int32_t, 2> rows(std::int64_t begin, std::int64_t end, const Progress& progress = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reader of coordinate files.
class CoordinatesFile {
 public:
  /// Throws Error(invalid_file) if the file is not a coordinates file.
  explicit CoordinatesFile(const std::string& path);
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] const std::vector<std::string>& volumes() const noexcept { return volumes_; }
  /// Read the rows [begin, end). Centre::volume is an index of volumes(). Thread-safe.
  [[nodiscard]] std::vector<Centre> read(std::int64_t begin, std::int64_t end) const;

 private:
  Hdf5File file_;
  std::int64_t size_ = 0;
  std::vector<std::string> volumes_;
};

}  // namespace floodtide::data
