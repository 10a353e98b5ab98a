// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "floodtide/data/hdf5.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// A file and a dataset in it.
struct DatasetName {
  std::string file;
  std::string dataset;
};

/// Splits "file:dataset" at the last colon. Throws Error(invalid_argument) if either part is missing.
[[nodiscard]] DatasetName parse_dataset_name(std::string_view reference);

/// A three-dimensional HDF5 dataset of integers or floating-point numbers, axes z, y, x, read in boxes: the volume may be
/// larger than memory. Move-only; several threads may read at once (HDF5 itself serves one after another).
class Volume {
 public:
  /// Opens "file:dataset" read-only. Throws Error(invalid_file) naming file and dataset and what was found there if the file
  /// cannot be read, the dataset is missing, has not three axes or an element type that is neither integer nor float.
  [[nodiscard]] static Volume open(std::string_view reference, std::size_t chunk_cache_bytes = kChunkCacheBytes);
  [[nodiscard]] static Volume open(const std::string& file, const std::string& dataset,
                                   std::size_t chunk_cache_bytes = kChunkCacheBytes);

  /// "file:dataset", for messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const Vec3& shape() const noexcept { return shape_; }
  [[nodiscard]] Box box() const noexcept { return {{0, 0, 0}, shape_}; }
  [[nodiscard]] ElementType type() const noexcept { return type_; }
  /// Chunk size in voxels; the whole volume if it is stored in one piece.
  [[nodiscard]] const Vec3& chunks() const noexcept { return chunks_; }
  [[nodiscard]] const Hdf5File& file() const noexcept { return file_; }
  [[nodiscard]] const std::string& dataset() const noexcept { return dataset_; }

  /// Throws Error(invalid_file) unless the elements can serve as T (see read_block).
  template <class T>
  void require_type() const;

  /// Throws Error(out_of_range) if the box is empty or not inside the volume.
  void require_inside(const Box& box) const;

  /// The voxels of a box as T:
  /// - float: image intensities as stored, from integers of at most 16 bits or floating-point numbers (float64 is rounded).
  ///   A value that is not finite is Error(invalid_file) naming the voxel.
  /// - std::int64_t: labels, from integers only. uint64 labels keep their bits, so those of 2^63 and more come out negative.
  /// - std::uint8_t: from uint8 only.
  /// Throws Error(out_of_range) if the box is empty or not inside the volume, Error(invalid_file) for another element type.
  template <class T>
  [[nodiscard]] Tensor<T, 3> read_block(const Box& box) const;
  /// The same into memory of the caller, whose shape is box.size.
  template <class T>
  void read_block(const Box& box, View<T, 3> out) const;

 private:
  Volume(Hdf5File file, std::string dataset, const DatasetInfo& info);

  Hdf5File file_;
  std::string dataset_;
  std::string name_;
  Vec3 shape_;
  Vec3 chunks_;
  ElementType type_;
};

}  // namespace floodtide::data
