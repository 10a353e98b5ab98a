// SPDX-License-Identifier: Apache-2.0
// Checks before the HDF5 library reads a file or a dataset. The file may come from an untrusted source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>

#include "data/hdf5_handle.hpp"

namespace floodtide::data {

/// Contents of the superblock, at the beginning of an HDF5 file.
struct Superblock {
  int version;                ///< files of version 2 and 3 have checksums of their metadata
  std::uint64_t end_of_file;  ///< end of the file according to the superblock, in bytes from its beginning
  std::uint64_t file_bytes;   ///< size of the file in bytes
  std::uint64_t base;         ///< byte that has address 0
  std::size_t offset_size;    ///< bytes of an address
  std::size_t length_size;    ///< bytes of a length
};

/// Check that a path names a regular file with a superblock, which is not truncated. Return the superblock. Throws
/// Error(invalid_file).
Superblock require_hdf5_file(const std::string& path);
/// Return a little-endian number of `size` bytes.
[[nodiscard]] std::uint64_t hdf5_number(const unsigned char* bytes, std::size_t size);

/// Return true if files may refer to other files: the environment variable FLOODTIDE_ALLOW_EXTERNAL is 1. The first call reads
/// the variable.
[[nodiscard]] bool external_allowed();
/// Return link access properties (H5P_LINK_ACCESS) that follow no link into another file, unless external_allowed(). The name
/// of a refused file is written to `out_refused`, which must outlive the properties.
[[nodiscard]] PropertyHandle link_access(std::string& out_refused);

/// Check that an open dataset holds its own values (unless external_allowed()), and that all its filters are available. Throws
/// Error(invalid_file) starting with `where`.
void require_readable(hid_t dataset, const std::string& where);

// The HDF5 library (1.10.8) does not compare the size of a chunk, in the file or after decompression, with the size that the
// dataset needs. With a damaged chunk the library returns other memory of the process, or crashes.

/// Indices of the chunks of a dataset that were checked.
using CheckedChunks = std::set<std::int64_t>;

/// Throws Error(invalid_file) if a chunk of the block [start, start + count) does not have the size that the dataset needs.
/// Reads compressed chunks without a checksum one additional time. Skips the chunks in `checked`. If filters that are not
/// looked into have made a chunk, calls `try_block` first, which throws if reading the block would harm this process.
void require_chunks(hid_t dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                    CheckedChunks& checked, const std::function<void()>& try_block, const std::string& where);

}  // namespace floodtide::data
