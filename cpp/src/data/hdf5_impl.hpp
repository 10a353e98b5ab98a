// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/hdf5_chunks.hpp"
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

}  // namespace floodtide::data
