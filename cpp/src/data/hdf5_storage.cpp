// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_storage.hpp"

#include <algorithm>
#include <vector>

#include "data/hdf5_impl.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {
namespace {

constexpr std::int64_t kCompactBytes = 4096;                 // in the object's header; HDF5 allows 64 KiB
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;  // of a dataset without chunks of the caller's choice

/// Attributes stay in the object's header, whatever their number: HDF5 moves more than eight into a heap, where large ones
/// have no checksum.
void keep_attributes_in_header(hid_t properties) { H5Pset_attr_phase_change(properties, 65'535, 0); }

/// Blocks of rows of about kChunkBytes, of equal size but for the last.
std::vector<hsize_t> rows_of(std::span<const std::int64_t> shape, std::int64_t bytes) {
  std::vector<hsize_t> chunk(shape.begin(), shape.end());
  for (std::size_t axis = 0; axis < chunk.size() && bytes > kChunkBytes; ++axis) {
    const std::int64_t row_bytes = bytes / shape[axis];
    const std::int64_t most = std::max<std::int64_t>(1, kChunkBytes / row_bytes);
    const std::int64_t pieces = (shape[axis] + most - 1) / most;
    const std::int64_t rows = (shape[axis] + pieces - 1) / pieces;
    chunk[axis] = static_cast<hsize_t>(rows);
    bytes = row_bytes * rows;
  }
  return chunk;
}

}  // namespace

PropertyHandle file_access(std::size_t chunk_cache_bytes) {
  PropertyHandle access(H5Pcreate(H5P_FILE_ACCESS));
  constexpr std::size_t kSlots = 12421;  // prime, about 100 x the chunks of a full cache, as the HDF5 manual advises
  constexpr double kPreemptRead = 0.75;  // the library's default
  H5Pset_cache(access.id(), 0, kSlots, chunk_cache_bytes, kPreemptRead);
  // The oldest format with checksums of all metadata; readable with HDF5 1.10 (2016) and later.
  H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  return access;
}

PropertyHandle file_creation() {
  PropertyHandle properties(H5Pcreate(H5P_FILE_CREATE));
  keep_attributes_in_header(properties.id());
  return properties;
}

PropertyHandle link_creation() {
  PropertyHandle properties(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(properties.id(), 1);
  return properties;
}

PropertyHandle group_creation() {
  PropertyHandle properties(H5Pcreate(H5P_GROUP_CREATE));
  keep_attributes_in_header(properties.id());
  return properties;
}

PropertyHandle dataset_creation(ElementType type, std::span<const std::int64_t> shape, const DatasetOptions& options,
                                const std::string& where) {
  PropertyHandle properties(H5Pcreate(H5P_DATASET_CREATE));
  keep_attributes_in_header(properties.id());
  FLOODTIDE_REQUIRE(options.gzip >= 0 && options.gzip <= 9, invalid_argument, where, ": gzip level is ", options.gzip,
                    ", expected 0 to 9");
  FLOODTIDE_REQUIRE(options.gzip == 0 || !options.chunks.empty(), invalid_argument, where, ": gzip needs chunks");
  std::vector<hsize_t> chunks = hdf5_sizes(options.chunks);
  if (chunks.empty()) {
    auto bytes = static_cast<std::int64_t>(size_in_bytes(type));
    for (const std::int64_t extent : shape) {
      FLOODTIDE_REQUIRE(extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes), invalid_argument, where, ": shape ",
                        Show{shape}, " is too large");
    }
    if (bytes <= kCompactBytes) {
      H5Pset_layout(properties.id(), H5D_COMPACT);
    } else if (options.checksums) {
      chunks = rows_of(shape, bytes);
    }
  } else {
    FLOODTIDE_REQUIRE(chunks.size() == shape.size(), shape_mismatch, where, ": chunks have ", chunks.size(),
                      " axes, the dataset has ", shape.size());
  }
  if (!chunks.empty()) {
    FLOODTIDE_REQUIRE(H5Pset_chunk(properties.id(), static_cast<int>(chunks.size()), chunks.data()) >= 0, invalid_argument,
                      where, ": chunks are ", Show{options.chunks}, ", expected 1 to 2^32 - 1 bytes each");
  }
  if (options.gzip > 0) {
    if (size_in_bytes(type) > 1) H5Pset_shuffle(properties.id());
    H5Pset_deflate(properties.id(), static_cast<unsigned>(options.gzip));
  }
  if (!chunks.empty() && options.checksums)
    H5Pset_fletcher32(properties.id());  // last, so that it covers what lies on the disk
  if (options.fill != 0) H5Pset_fill_value(properties.id(), H5T_NATIVE_DOUBLE, &options.fill);
  return properties;
}

bool has_checksum(hid_t dataset, bool file_has_checksums) {
  const PropertyHandle properties(H5Dget_create_plist(dataset));
  if (H5Pget_layout(properties.id()) == H5D_COMPACT) return file_has_checksums;
  unsigned flags = 0;
  return H5Pget_filter_by_id2(properties.id(), H5Z_FILTER_FLETCHER32, &flags, nullptr, nullptr, 0, nullptr, nullptr) >= 0;
}

std::string checksum_of(const std::string& attribute) { return attribute + ".crc32c"; }

}  // namespace floodtide::data
