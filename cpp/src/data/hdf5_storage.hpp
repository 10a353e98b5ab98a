// SPDX-License-Identifier: Apache-2.0
// How floodtide's own files are laid out so that damage is noticed when they are read. HDF5 1.10's format has checksums over
// all of its metadata; datasets get one for each chunk (HDF5's Fletcher-32 filter, which every tool verifies), and small
// ones lie in the metadata itself. Parameters have one CRC-32C over all of them instead (train/network_file.hpp). HDF5
// protects neither texts of variable length nor attributes above 64 KiB: each of these has a second attribute with its
// CRC-32C. docs/decisions/20261122-file-integrity.md has the reasons and the cost.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/hdf5_handle.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {

/// How files are opened: the format of what is added to them, and the chunk cache of each dataset.
[[nodiscard]] PropertyHandle file_access(std::size_t chunk_cache_bytes);
[[nodiscard]] PropertyHandle file_creation();
/// Of a group; makes the groups on its way too (H5P_LINK_CREATE).
[[nodiscard]] PropertyHandle link_creation();
[[nodiscard]] PropertyHandle group_creation();
/// Of a dataset. Throws Error(invalid_argument, shape_mismatch) starting with `where` for odd options.
[[nodiscard]] PropertyHandle dataset_creation(ElementType type, std::span<const std::int64_t> shape,
                                              const DatasetOptions& options, const std::string& where);

/// True if each of the dataset's values is covered by a checksum that HDF5 verifies. `file_has_checksums`: of its metadata.
[[nodiscard]] bool has_checksum(hid_t dataset, bool file_has_checksums);

/// Name of the attribute with the CRC-32C of another one.
[[nodiscard]] std::string checksum_of(const std::string& attribute);
/// Attributes of more bytes leave the object's header, which HDF5 has a checksum of.
inline constexpr std::size_t kLargestCheckedAttribute = 60'000;

}  // namespace floodtide::data
