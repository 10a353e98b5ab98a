// SPDX-License-Identifier: Apache-2.0
// Volumes: three-dimensional arrays of integers or floating-point numbers, axes z, y, x, read in boxes.
//
// Training, partitions, segmentation and reports read volumes through the interface `Volume`. Its readers are HDF5 datasets
// (open_volume), arrays in memory (array_volume), and classes that callers derive: the Python bindings have a reader that
// calls a Python object. A reader implements read_voxels(). `Volume` has the checks and conversions for all readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "floodtide/base/immovable.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// A file and a dataset in it.
struct DatasetName {
  std::string file;
  std::string dataset;
};

/// Split "file:dataset" at the last colon. Throws Error(invalid_argument) if either part is missing.
[[nodiscard]] DatasetName parse_dataset_name(std::string_view reference);

/// Properties of a volume.
struct VolumeInfo {
  std::string name;  ///< for messages, for example "file:dataset"
  Vec3 shape;        ///< voxels along z, y, x
  Vec3 chunks;       ///< voxels of a storage chunk; the shape if the volume is stored in one piece
  ElementType type;
};

/// A volume that is open for reading. It may be larger than memory. Several threads may read at the same time.
class Volume : Immovable {
 public:
  virtual ~Volume();

  [[nodiscard]] const std::string& name() const noexcept { return info_.name; }
  [[nodiscard]] const Vec3& shape() const noexcept { return info_.shape; }
  [[nodiscard]] Box box() const noexcept { return {{0, 0, 0}, info_.shape}; }
  [[nodiscard]] ElementType type() const noexcept { return info_.type; }
  [[nodiscard]] const Vec3& chunks() const noexcept { return info_.chunks; }

  /// Return a text attribute of the volume, or an empty text without this attribute.
  [[nodiscard]] virtual std::string text(const std::string& /*attribute*/) const { return {}; }
  /// Return an attribute of integers, or nothing without this attribute.
  [[nodiscard]] virtual std::optional<Array<std::int64_t>> integers(const std::string& /*attribute*/) const { return {}; }
  /// Return an attribute of one or several texts; nothing without this attribute.
  [[nodiscard]] virtual std::vector<std::string> texts(const std::string& /*attribute*/) const { return {}; }
  /// Return an attribute of numbers, or nothing without this attribute.
  [[nodiscard]] virtual std::optional<Array<double>> numbers(const std::string& /*attribute*/) const { return {}; }

  /// Throws Error(invalid_file) unless read_block() can convert the elements to T: float or std::uint8_t.
  template <class T>
  void require_type() const;

  /// Throws Error(out_of_range) if the box is empty or not inside the volume.
  void require_inside(const Box& box) const;

  /// Read the voxels of a box as T:
  /// - float: image intensities as stored, from integers of at most 16 bits or floating-point numbers (float64 is rounded).
  ///   A value that is not finite is Error(invalid_file) naming the voxel.
  /// - std::int64_t: labels, from integers or from floating-point numbers that are whole (Error(invalid_file) naming the voxel
  ///   otherwise). uint64 labels keep their bits, so those of 2^63 and more come out negative.
  /// - std::uint8_t: from uint8 only.
  /// Throws Error(out_of_range) if the box is empty or not inside the volume, Error(invalid_file) for another element type.
  template <class T>
  [[nodiscard]] Tensor<T, 3> read_block(const Box& box) const {
    require_inside(box);
    Tensor<T, 3> block(box.size);
    read_block<T>(box, block.view());
    return block;
  }
  /// Read the voxels of a box into memory of the caller. The shape of `out` is box.size.
  template <class T>
  void read_block(const Box& box, View<T, 3> out) const;

  /// Read the voxels of a box in the stored type, row-major. `out` has box.voxels() * size_in_bytes(type()) bytes, aligned for
  /// the type. Throws Error(out_of_range) if the box is empty or not inside the volume, Error(shape_mismatch)
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

/// Several objects may share a volume.
using VolumePtr = std::shared_ptr<const Volume>;

/// Open the HDF5 dataset "file:dataset" for reading. Throws Error(invalid_file) if the file cannot be read, or if the dataset
/// is missing, does not have three axes, or has an element type that is neither integer nor float. The message names file,
/// dataset and the reason.
[[nodiscard]] VolumePtr open_volume(std::string_view reference, std::size_t chunk_cache_bytes = kChunkCacheBytes);
/// Open the dataset as above. With `channel`, open one channel of a dataset with the axes channel, z, y, x, as a volume. A
/// dataset of three axes is its channel 0. Throws Error(invalid_file) as above, and if there is no such channel.
[[nodiscard]] VolumePtr open_volume(const std::string& file, const std::string& dataset,
                                    std::optional<std::int64_t> channel = {}, std::size_t chunk_cache_bytes = kChunkCacheBytes);

/// Memory layout of an array. Strides are in bytes and may be negative.
struct ArrayLayout {
  const std::byte* data;
  ElementType type;
  Vec3 shape;
  Vec3 strides_bytes;
};

/// Make a volume that reads an array of the caller without a copy. `owner` keeps the array alive as long as the volume.
[[nodiscard]] VolumePtr array_volume(std::string name, const ArrayLayout& layout, std::shared_ptr<const void> owner);

/// A volume to read: an open volume, or the name "file:dataset" of an HDF5 dataset, which open() opens.
class VolumeReference {
 public:
  VolumeReference() = default;
  VolumeReference(std::string name) : name_(std::move(name)) {}  // NOLINT(google-explicit-constructor)
  VolumeReference(const char* name) : name_(name) {}             // NOLINT(google-explicit-constructor)
  VolumeReference(VolumePtr volume)
      : name_(volume->name()), volume_(std::move(volume)) {}  // NOLINT(google-explicit-constructor)

  /// Return true if this object refers to no volume.
  [[nodiscard]] bool empty() const noexcept { return name_.empty() && !volume_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Return the open volume. Throws the errors of open_volume(). `chunk_cache_bytes` is used if the dataset is not open yet.
  [[nodiscard]] VolumePtr open(std::size_t chunk_cache_bytes = kChunkCacheBytes) const;

 private:
  std::string name_;
  VolumePtr volume_;
};

}  // namespace floodtide::data
