// SPDX-License-Identifier: Apache-2.0
// Layout of floodtide's own files, which reveals damage when the files are read. The format of HDF5 1.10 has checksums of all
// metadata. Datasets have a checksum for each chunk (HDF5's Fletcher-32 filter, which every tool verifies). Small datasets are
// stored in the metadata. Parameters have one CRC-32C over all arrays instead (train/network_file.hpp). HDF5 protects neither
// texts of variable length nor attributes above 64 KiB: each of these has a second attribute with its CRC-32C.
// docs/decisions/20261122-file-integrity.md has the reasons and the overhead.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/hdf5_handle.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {

/// Return file access properties: the format of new objects, and the size of the chunk cache of each dataset.
[[nodiscard]] PropertyHandle file_access(std::size_t chunk_cache_bytes);
[[nodiscard]] PropertyHandle file_creation();
/// Return link creation properties (H5P_LINK_CREATE) that also make missing parent groups.
[[nodiscard]] PropertyHandle link_creation();
[[nodiscard]] PropertyHandle group_creation();
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
