// SPDX-License-Identifier: Apache-2.0
// Volumes: three-dimensional arrays of integers or floating-point numbers, axes z, y, x, read in boxes.
//
// `Volume` is the interface that training, partitions, segmentation and reports read through. Its readers are HDF5 datasets
// (open_volume), arrays in memory (array_volume), and what callers derive from it: the Python bindings have a reader that
// asks a Python object. A reader implements read_voxels(); checks and conversions stand here, once for all readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

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

/// What a volume is.
struct VolumeInfo {
  std::string name;  ///< for messages, for example "file:dataset"
  Vec3 shape;        ///< voxels along z, y, x
  Vec3 chunks;       ///< voxels of a storage chunk; the shape if the volume is stored in one piece
  ElementType type;
};

/// A volume that is open for reading; it may be larger than memory. Several threads may read at once.
class Volume {
 public:
  virtual ~Volume();
  Volume(const Volume&) = delete;
  Volume& operator=(const Volume&) = delete;
  Volume(Volume&&) = delete;
  Volume& operator=(Volume&&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return info_.name; }
  [[nodiscard]] const Vec3& shape() const noexcept { return info_.shape; }
  [[nodiscard]] Box box() const noexcept { return {{0, 0, 0}, info_.shape}; }
  [[nodiscard]] ElementType type() const noexcept { return info_.type; }
  [[nodiscard]] const Vec3& chunks() const noexcept { return info_.chunks; }

  /// A text that the volume carries as an attribute; empty without the attribute.
  [[nodiscard]] virtual std::string text(const std::string& attribute) const;
  /// Integers that the volume carries as an attribute; none without the attribute.
  [[nodiscard]] virtual std::optional<Array<std::int64_t>> integers(const std::string& attribute) const;
  /// Numbers that the volume carries as an attribute; none without the attribute.
  [[nodiscard]] virtual std::optional<Array<double>> numbers(const std::string& attribute) const;

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

  /// The voxels of a box in the volume's own type, row-major, into box.voxels() * size_in_bytes(type()) bytes that are
  /// aligned for that type. Throws Error(out_of_range) if the box is empty or not inside the volume, Error(shape_mismatch)
  /// for another number of bytes, and what the reader throws.
  void read_stored(const Box& box, std::span<std::byte> out) const;

 protected:
  /// Throws Error(invalid_file) if the shape has no voxels, or the chunks have none.
  explicit Volume(VolumeInfo info);

 private:
  /// Reads a box that is inside the volume, as read_stored() does. Several threads may call this at once.
  virtual void read_voxels(const Box& box, std::byte* out) const = 0;

  VolumeInfo info_;
};

/// Volumes are shared by what reads them.
using VolumePtr = std::shared_ptr<const Volume>;

/// Opens the HDF5 dataset "file:dataset" read-only. Throws Error(invalid_file) naming file and dataset and what was found
/// there if the file cannot be read, the dataset is missing, has not three axes or an element type that is neither integer
/// nor float.
[[nodiscard]] VolumePtr open_volume(std::string_view reference, std::size_t chunk_cache_bytes = kChunkCacheBytes);
[[nodiscard]] VolumePtr open_volume(const std::string& file, const std::string& dataset,
                                    std::size_t chunk_cache_bytes = kChunkCacheBytes);

/// An array in memory. Strides are in bytes and may be negative.
struct ArrayLayout {
  const std::byte* data;
  ElementType type;
  Vec3 shape;
  Vec3 strides_bytes;
};

/// A volume that reads an array of the caller without copying the array. `owner` keeps the array alive as long as the volume.
[[nodiscard]] VolumePtr array_volume(std::string name, const ArrayLayout& layout, std::shared_ptr<const void> owner);

/// A volume to read: an open one, or the name "file:dataset" of an HDF5 dataset that is opened by open().
class VolumeReference {
 public:
  VolumeReference() = default;
  VolumeReference(std::string name) : name_(std::move(name)) {}  // NOLINT(google-explicit-constructor)
  VolumeReference(const char* name) : name_(name) {}             // NOLINT(google-explicit-constructor)
  VolumeReference(VolumePtr volume)
      : name_(volume->name()), volume_(std::move(volume)) {}  // NOLINT(google-explicit-constructor)

  /// Whether this refers to nothing.
  [[nodiscard]] bool empty() const noexcept { return name_.empty() && !volume_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Throws as open_volume does. `chunk_cache_bytes` holds for a dataset that is not open yet.
  [[nodiscard]] VolumePtr open(std::size_t chunk_cache_bytes = kChunkCacheBytes) const;

 private:
  std::string name_;
  VolumePtr volume_;
};

}  // namespace floodtide::data
