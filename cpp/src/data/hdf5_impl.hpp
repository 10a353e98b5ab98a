// SPDX-License-Identifier: Apache-2.0
// Parts of Hdf5File: hdf5_check (a program reads a file first), hdf5_trust (what a file and its chunks must be), hdf5_storage
// (how floodtide stores), and hdf5, hdf5_attributes, hdf5_data, hdf5_output and hdf5_try with its functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/hdf5_handle.hpp"
#include "data/hdf5_trust.hpp"
#include "floodtide/base/own_process.hpp"
#include "floodtide/base/staged_file.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {

struct Hdf5File::Impl {
  std::string path;                  ///< final name, from the caller
  std::optional<StagedFile> staged;  ///< empty while reading, and after commit()
  Hdf5Result result;                 ///< the objects that commit() marks
  bool writing = false;
  OwnProcess process;                           ///< that opened or made the file
  Superblock superblock{};                      ///< of a file that is open for reading
  mutable std::set<std::string> found_objects;  ///< names of objects that exist() has found, while reading
  mutable std::string refused_file;             ///< name of the file that a refused link refers to
  PropertyHandle links;                         ///< how links are followed
  FileHandle file;
  /// Datasets stay open after their first use, because closing a dataset drops its chunk cache.
  mutable std::map<std::string, DatasetHandle> datasets;
  mutable std::map<std::string, CheckedChunks> checked;  ///< checked chunks of each dataset
  bool all_tried = true;                                 ///< the program of set_hdf5_checker() has read all objects

  [[nodiscard]] std::string where(const std::string& object) const { return path + ":" + object; }
  [[nodiscard]] hid_t dataset(const std::string& name) const;
  /// Return whether the object exists. Throws Error(invalid_file) if the path to the object is damaged, or leads into another
  /// file.
  [[nodiscard]] bool exists(const std::string& object) const;
  void require_object(const std::string& object) const;
  /// Call this, without the lock, before the library reads an object: has the program of set_hdf5_checker() read it.
  void try_first(const std::string& object) const;
  void require_writing() const;
  /// Forgets the file and its datasets without closing them.
  void release() noexcept;
  /// Call this after a failed write: removes the temporary file and throws Error(io). The ids stay open, because the library
  /// (1.10.8) crashes when it closes a file that it could not write. The removed file needs no space on the disk.
  [[noreturn]] void give_up(const std::string& what);
};

/// Throws Error(invalid_file) after reading has failed, with the library's reason.
[[noreturn]] void raise_unreadable(const std::string& what);

/// Convert sizes to the type of HDF5.
[[nodiscard]] std::vector<hsize_t> hdf5_sizes(std::span<const std::int64_t> values);
[[nodiscard]] std::vector<std::int64_t> shape_of_space(hid_t space);
/// Return a data space of this shape. An empty shape makes a scalar.
[[nodiscard]] SpaceHandle make_space(std::span<const std::int64_t> shape);

/// Create an attribute and write its value. Return false if this fails.
[[nodiscard]] bool make_attribute(hid_t file, const std::string& object, const std::string& name, hid_t type,
                                  const SpaceHandle& space, const void* value);

// Layout of floodtide's own files, which reveals damage when the files are read. The format of HDF5 1.10 has checksums of all
// metadata. Datasets have a checksum for each chunk (HDF5's Fletcher-32 filter, which every tool verifies). Small datasets are
// stored in the metadata. Parameters have one CRC-32C over all arrays instead (train/network_file.hpp). HDF5 protects neither
// texts of variable length nor attributes above 64 KiB: each of these has a second attribute with its CRC-32C.
// docs/decisions/20261122-file-integrity.md has the reasons and the overhead.

/// Return file access properties: the format of new objects, and the size of the chunk cache of each dataset.
[[nodiscard]] PropertyHandle file_access(std::size_t chunk_cache_bytes);
/// Return link creation properties (H5P_LINK_CREATE) that also make missing parent groups.
[[nodiscard]] PropertyHandle link_creation();
/// Return creation properties of objects whose attributes stay in their header, whatever their number: HDF5 moves more than
/// eight into a heap, where large ones have no checksum. @param kind H5P_FILE_CREATE, H5P_GROUP_CREATE or H5P_DATASET_CREATE
[[nodiscard]] PropertyHandle object_creation(hid_t kind);
/// Return dataset creation properties. Throws Error(invalid_argument) or Error(shape_mismatch) for wrong options; the message
/// starts with `where`.
[[nodiscard]] PropertyHandle dataset_creation(ElementType type, std::span<const std::int64_t> shape,
                                              const DatasetOptions& options, const std::string& where);

/// Return true if checksums that HDF5 verifies cover all values of the dataset. `file_has_checksums`: the metadata have
/// checksums.
[[nodiscard]] bool has_checksum(hid_t dataset, bool file_has_checksums);

/// Return the name of the attribute with the CRC-32C of another attribute.
[[nodiscard]] std::string checksum_of(const std::string& attribute);
/// HDF5 stores larger attributes (bytes) outside the object's header, without a checksum.
inline constexpr std::size_t kLargestCheckedAttribute = 60'000;

}  // namespace floodtide::data
