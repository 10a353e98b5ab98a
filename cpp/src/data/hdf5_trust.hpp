// SPDX-License-Identifier: Apache-2.0
// What is checked before the HDF5 library reads a file or a dataset, because the file may come from anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "data/hdf5_handle.hpp"

namespace floodtide::data {

/// What the beginning of an HDF5 file says.
struct Superblock {
  int version;                ///< files of version 2 and 3 have checksums of their metadata
  std::uint64_t end_of_file;  ///< in bytes from the beginning of the file
  std::uint64_t file_bytes;   ///< how large the file is
  std::uint64_t base;         ///< where addresses count from
  std::size_t offset_size;    ///< bytes of an address
  std::size_t length_size;    ///< bytes of a length
};

/// Check that a path names a regular file that begins as HDF5 files do and is not cut off. Throws Error(invalid_file).
Superblock require_hdf5_file(const std::string& path);

/// True if files may refer to others: the environment variable FLOODTIDE_ALLOW_EXTERNAL is 1.
[[nodiscard]] bool external_allowed();
/// Link access (H5P_LINK_ACCESS) that follows no link into another file unless these are allowed. `out_refused` must outlive
/// it and gets the file's name.
[[nodiscard]] PropertyHandle link_access(std::string& out_refused);

/// Check that an open dataset has its values in `file` itself (unless others are allowed) and needs only filters that are
/// there. Throws Error(invalid_file) starting with `where`.
void require_readable(hid_t file, hid_t dataset, const std::string& where);

}  // namespace floodtide::data
