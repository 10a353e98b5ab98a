// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/hdf5_chunks.hpp"
#include "data/hdf5_handle.hpp"
#include "data/hdf5_limit.hpp"
#include "data/hdf5_trust.hpp"
#include "floodtide/base/staged_file.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {

/// Held while a file is read: one call at a time, and not for ever.
class Hdf5Reading {
 public:
  explicit Hdf5Reading(const std::string& path, std::uint64_t bytes = 0) : limit_(path, bytes) {}

 private:
  Hdf5Lock lock_;
  Hdf5Limit limit_;
};

struct Hdf5File::Impl {
  std::string path;                  ///< final name, as the caller gave it
  std::optional<StagedFile> staged;  ///< none when reading, or after commit()
  Hdf5Result result;                 ///< what commit() marks
  bool writing = false;
  Superblock superblock{};           ///< of the file that is read
  mutable std::string refused_file;  ///< into which a link leads that is not followed
  PropertyHandle links;              ///< how links are followed
  FileHandle file;
  /// Datasets stay open once used: closing one drops its chunk cache.
  mutable std::map<std::string, DatasetHandle> datasets;
  mutable std::map<std::string, CheckedChunks> checked;  ///< of each dataset that is read

  [[nodiscard]] std::string where(const std::string& object) const { return path + ":" + object; }
  [[nodiscard]] hid_t dataset(const std::string& name) const;
  /// Throws Error(invalid_file) if the way to the object is damaged, or leads into another file.
  [[nodiscard]] bool exists(const std::string& object) const;
  void require_object(const std::string& object) const;
  void require_writing() const;
  /// After a failed write: removes the temporary file and throws Error(io). The ids are left open on purpose, because the
  /// library crashes when it closes a file that it could not write (1.10.8); the file holds no space any more.
  [[noreturn]] void give_up(const std::string& what);
};

/// Throws Error(invalid_file) for a failed reading, with what the library says about it.
[[noreturn]] void raise_unreadable(const std::string& what);

/// Sizes as HDF5 wants them.
[[nodiscard]] std::vector<hsize_t> hdf5_sizes(std::span<const std::int64_t> values);
[[nodiscard]] std::vector<std::int64_t> shape_of_space(hid_t space);
/// A data space of this shape; an empty shape is a scalar.
[[nodiscard]] SpaceHandle make_space(std::span<const std::int64_t> shape);

}  // namespace floodtide::data
