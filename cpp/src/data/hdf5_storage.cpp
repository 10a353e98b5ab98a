// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "data/hdf5_impl.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {
namespace {

struct TypeRow {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
  H5T_class_t kind;
  H5T_sign_t sign;
};

constexpr std::array<TypeRow, 10> kTypes{{
    {ElementType::uint8, "uint8", 1, H5T_INTEGER, H5T_SGN_NONE},
    {ElementType::int8, "int8", 1, H5T_INTEGER, H5T_SGN_2},
    {ElementType::uint16, "uint16", 2, H5T_INTEGER, H5T_SGN_NONE},
    {ElementType::int16, "int16", 2, H5T_INTEGER, H5T_SGN_2},
    {ElementType::uint32, "uint32", 4, H5T_INTEGER, H5T_SGN_NONE},
    {ElementType::int32, "int32", 4, H5T_INTEGER, H5T_SGN_2},
    {ElementType::uint64, "uint64", 8, H5T_INTEGER, H5T_SGN_NONE},
    {ElementType::int64, "int64", 8, H5T_INTEGER, H5T_SGN_2},
    {ElementType::float32, "float32", 4, H5T_FLOAT, H5T_SGN_ERROR},
    {ElementType::float64, "float64", 8, H5T_FLOAT, H5T_SGN_ERROR},
}};

const TypeRow& row(ElementType type) { return kTypes[static_cast<std::size_t>(type)]; }

herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* out_text) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(out_text) = error->desc;
  return 0;
}

constexpr std::int64_t kCompactBytes = 4096;                 // in the object's header; HDF5 allows 64 KiB
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;  // of a dataset without chunks of the caller's choice

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

std::string_view name(ElementType type) noexcept { return row(type).name; }
std::size_t size_in_bytes(ElementType type) noexcept { return row(type).bytes; }
bool is_integer(ElementType type) noexcept { return row(type).kind == H5T_INTEGER; }

hid_t native_type(ElementType type) {
  // In the order of kTypes.
  static const std::array<hid_t, kTypes.size()> types{H5T_NATIVE_UINT8,  H5T_NATIVE_INT8,  H5T_NATIVE_UINT16, H5T_NATIVE_INT16,
                                                      H5T_NATIVE_UINT32, H5T_NATIVE_INT32, H5T_NATIVE_UINT64, H5T_NATIVE_INT64,
                                                      H5T_NATIVE_FLOAT,  H5T_NATIVE_DOUBLE};
  return types[static_cast<std::size_t>(type)];
}

ElementType element_type_of(hid_t type, const std::string& what) {
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t bytes = H5Tget_size(type);
  const H5T_sign_t sign = kind == H5T_INTEGER ? H5Tget_sign(type) : H5T_SGN_ERROR;
  for (const TypeRow& candidate : kTypes) {
    if (candidate.kind == kind && candidate.bytes == bytes && candidate.sign == sign) return candidate.type;
  }
  const char* found = "of an unusual kind";
  if (kind == H5T_STRING) found = "text";
  if (kind == H5T_COMPOUND) found = "compound records";
  if (kind == H5T_ENUM) found = "enumerated (h5py stores booleans so)";
  if (kind == H5T_FLOAT) found = "floating-point numbers";
  raise(ErrorCode::invalid_file, what, ": elements are ", found, " of ", bytes,
        " bytes, expected integers of 1 to 8 bytes, float32 or float64");
}

std::string hdf5_cause() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, &keep_innermost, &text);
  H5Eclear2(H5E_DEFAULT);
  // File drivers add names, flags and addresses to what strerror() says; only that is of use.
  constexpr std::string_view kMarker = "error message = '";
  const std::size_t begin = text.find(kMarker);
  if (begin != std::string::npos) {
    const std::size_t from = begin + kMarker.size();
    return text.substr(from, text.find('\'', from) - from);
  }
  return text.empty() ? "unknown cause" : text;
}

PropertyHandle file_access(std::size_t chunk_cache_bytes) {
  PropertyHandle access(H5Pcreate(H5P_FILE_ACCESS));
  constexpr std::size_t kSlots = 12421;  // prime, about 100 x the chunks of a full cache, as the HDF5 manual advises
  constexpr double kPreemptRead = 0.75;  // the library's default
  H5Pset_cache(access.id(), 0, kSlots, chunk_cache_bytes, kPreemptRead);
  // The oldest format with checksums of all metadata; readable with HDF5 1.10 (2016) and later.
  H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  return access;
}

PropertyHandle link_creation() {
  PropertyHandle properties(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(properties.id(), 1);
  return properties;
}

PropertyHandle object_creation(hid_t kind) {
  PropertyHandle properties(H5Pcreate(kind));
  H5Pset_attr_phase_change(properties.id(), 65'535, 0);
  return properties;
}

PropertyHandle dataset_creation(ElementType type, std::span<const std::int64_t> shape, const DatasetOptions& options,
                                const std::string& where) {
  PropertyHandle properties = object_creation(H5P_DATASET_CREATE);
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
