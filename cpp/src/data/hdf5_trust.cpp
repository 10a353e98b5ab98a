// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_trust.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/input_file.hpp"

namespace floodtide::data {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr std::size_t kSuperblockBytes = 64;    // as far as it is looked at
constexpr std::uint64_t kFirstUserBlock = 512;  // the superblock is at 0, 512, 1024, 2048, ...
constexpr int kNewestVersion = 3;
constexpr const char* kAllowExternal = "FLOODTIDE_ALLOW_EXTERNAL";
constexpr int kDeepestVirtual = 8;  // virtual datasets of virtual datasets

using Bytes = std::array<unsigned char, kSuperblockBytes>;

/// A little-endian number of `size` bytes.
std::uint64_t number(const Bytes& bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | bytes.at(at + i);
  return value;
}

/// Source: HDF5 File Format Specification Version 3.0, II.A "Disk Format: Level 0A - Format Signature and Superblock".
Superblock parse(const Bytes& bytes, std::uint64_t file_bytes, const std::string& path) {
  const int version = bytes[8];
  FLOODTIDE_REQUIRE(version <= kNewestVersion, invalid_file, path, ": is damaged: HDF5 superblock of version ", version,
                    ", expected 0 to ", kNewestVersion);
  const bool old = version < 2;
  const std::size_t offset_size = bytes[old ? 13 : 9];
  FLOODTIDE_REQUIRE(offset_size == 2 || offset_size == 4 || offset_size == 8, invalid_file, path,
                    ": is damaged: its HDF5 superblock has addresses of ", offset_size, " bytes, expected 2, 4 or 8");
  const std::size_t addresses = version == 0 ? 24 : version == 1 ? 28 : 12;  // base, one other, end of file
  return {version,     number(bytes, addresses + 2 * offset_size, offset_size),
          file_bytes,  number(bytes, addresses, offset_size),
          offset_size, bytes[old ? 14 : 10]};
}

herr_t refuse_link(const char*, const char*, const char* file, const char*, unsigned*, hid_t, void* out_refused) {
  *static_cast<std::string*>(out_refused) = file;
  return -1;
}

/// Names of registered filters (https://github.com/HDFGroup/hdf5_plugins, docs/RegisteredFilterPlugins.md).
std::string filter_name(H5Z_filter_t id, const char* stored) {
  struct Row {
    H5Z_filter_t id;
    const char* name;
  };
  static constexpr std::array<Row, 14> kRows{{{H5Z_FILTER_DEFLATE, "gzip"},
                                              {H5Z_FILTER_SZIP, "SZIP"},
                                              {307, "BZIP2"},
                                              {32000, "LZF"},
                                              {32001, "Blosc"},
                                              {32004, "LZ4"},
                                              {32008, "bitshuffle"},
                                              {32010, "fpzip"},
                                              {32013, "ZFP"},
                                              {32015, "Zstandard"},
                                              {32017, "SZ"},
                                              {32023, "FCIDECOMP"},
                                              {32024, "JPEG"},
                                              {32026, "Blosc2"}}};
  for (const Row& row : kRows) {
    if (row.id == id) return row.name;
  }
  std::string text(stored);
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  return text.empty() ? "unknown" : text;
}

void require_filters(hid_t properties, const std::string& where) {
  for (int i = 0; i < H5Pget_nfilters(properties); ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    std::array<char, 64> name{};
    const H5Z_filter_t id =
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, name.size() - 1, name.data(), &config);
    FLOODTIDE_REQUIRE(id >= 0, invalid_file, where, ": is damaged: one of its filters cannot be read");
    if (H5Zfilter_avail(id) > 0) continue;
    raise(ErrorCode::invalid_file, where, ": is compressed with the HDF5 filter ", filter_name(id, name.data()), " (", id,
          "), which is not installed; convert the file where it is: h5repack -f GZIP=4 OLD.h5 NEW.h5");
  }
}

std::string text_of(const auto& get) {
  const ssize_t size = get(nullptr, std::size_t{0});
  if (size <= 0) return {};
  std::vector<char> text(static_cast<std::size_t>(size) + 1, '\0');
  get(text.data(), text.size());
  return text.data();
}

/// The file, and the dataset in it, that a part of a virtual dataset is made of.
std::pair<std::string, std::string> source_of(hid_t properties, std::size_t part) {
  return {text_of([&](char* text, std::size_t size) { return H5Pget_virtual_filename(properties, part, text, size); }),
          text_of([&](char* text, std::size_t size) { return H5Pget_virtual_dsetname(properties, part, text, size); })};
}

/// The smallest box that holds a selection, and whether the selection is all of it. Unknown (empty) for one without end.
struct Selected {
  std::vector<std::int64_t> first, size;
  bool is_box;
};

Selected selected(hid_t space) {
  const auto rank = static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space)));
  std::vector<hsize_t> first(rank), last(rank);
  if (H5Sget_select_bounds(space, first.data(), last.data()) < 0) return {};
  Selected result{.first = {first.begin(), first.end()}, .size = {}, .is_box = true};
  hsize_t elements = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const hsize_t size = last[axis] - first[axis] + 1;
    result.size.push_back(static_cast<std::int64_t>(size));
    result.is_box = !__builtin_mul_overflow(elements, size, &elements) && result.is_box;
  }
  result.is_box = result.is_box && H5Sget_select_npoints(space) == static_cast<hssize_t>(elements);
  return result;
}

void require_inside(hid_t file, hid_t properties, const std::string& where, int depth);

/// Checks the datasets that a virtual one is made of.
void require_sources_inside(hid_t file, hid_t properties, const std::string& where, int depth) {
  std::size_t count = 0;
  H5Pget_virtual_count(properties, &count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto [source, name] = source_of(properties, i);
    FLOODTIDE_REQUIRE(source == ".", invalid_file, where, ": is a virtual dataset with values in another file, ", source,
                      "; set ", kAllowExternal, "=1 if you trust it");
    std::string refused;
    const PropertyHandle links = link_access(refused);
    if (H5Oexists_by_name(file, name.c_str(), links.id()) <= 0) continue;  // missing ones read as the fill value
    const DatasetHandle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
    if (!dataset.valid()) continue;
    const PropertyHandle inner(H5Dget_create_plist(dataset.id()));
    require_inside(file, inner.id(), where, depth + 1);
  }
}

void require_inside(hid_t file, hid_t properties, const std::string& where, int depth) {
  FLOODTIDE_REQUIRE(depth <= kDeepestVirtual, invalid_file, where, ": is a virtual dataset of more than ", kDeepestVirtual,
                    " levels");
  if (H5Pget_external_count(properties) > 0) {
    std::array<char, 256> name{};
    off_t offset = 0;
    hsize_t size = 0;
    H5Pget_external(properties, 0, name.size() - 1, name.data(), &offset, &size);
    raise(ErrorCode::invalid_file, where, ": has its values in another file, ", name.data(), "; set ", kAllowExternal,
          "=1 if you trust it");
  }
  if (H5Pget_layout(properties) == H5D_VIRTUAL) require_sources_inside(file, properties, where, depth);
}

/// The library reads beyond its buffers where a dataset in one piece says two different sizes.
void require_size(hid_t dataset, hid_t properties, const std::string& where) {
  const H5D_layout_t layout = H5Pget_layout(properties);
  if ((layout != H5D_CONTIGUOUS && layout != H5D_COMPACT) || H5Pget_external_count(properties) > 0) return;
  const hsize_t stored = H5Dget_storage_size(dataset);
  if (layout == H5D_CONTIGUOUS && stored == 0) return;  // never written
  const SpaceHandle space(H5Dget_space(dataset));
  const TypeHandle type(H5Dget_type(dataset));
  const H5T_class_t kind = H5Tget_class(type.id());
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return;  // refused by its name later; texts have another size in memory
  const auto elements = static_cast<hsize_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space.id())));
  const hsize_t element_bytes = H5Tget_size(type.id());
  FLOODTIDE_REQUIRE(element_bytes > 0 && stored % element_bytes == 0 && stored / element_bytes == elements, invalid_file, where,
                    ": is damaged: it has ", elements, " elements of ", element_bytes, " bytes, stored in ", stored);
}

}  // namespace

Superblock require_hdf5_file(const std::string& path) {
  const InputFile file(path, "an HDF5 file");
  const auto size = static_cast<std::uint64_t>(file.size());
  for (std::uint64_t at = 0; at < size; at = at == 0 ? kFirstUserBlock : 2 * at) {
    Bytes bytes{};
    file.read(static_cast<std::int64_t>(at), std::as_writable_bytes(std::span(bytes)));
    if (!std::equal(kSignature.begin(), kSignature.end(), bytes.begin(),
                    [](char a, unsigned char b) { return static_cast<unsigned char>(a) == b; })) {
      continue;
    }
    const Superblock superblock = parse(bytes, size, path);
    FLOODTIDE_REQUIRE(superblock.end_of_file <= size, invalid_file, path, ": cannot be opened as an HDF5 file: it has ", size,
                      " bytes, its header says ", superblock.end_of_file, ": it is truncated or damaged");
    return superblock;
  }
  raise(ErrorCode::invalid_file, path,
        ": cannot be opened as an HDF5 file: ", size == 0 ? "it is empty" : "it has no HDF5 signature");
}

bool external_allowed() {
  static const bool allowed = [] {
    const char* const value = std::getenv(kAllowExternal);
    return value != nullptr && std::string_view(value) == "1";
  }();
  return allowed;
}

PropertyHandle link_access(std::string& out_refused) {
  PropertyHandle access(H5Pcreate(H5P_LINK_ACCESS));
  if (!external_allowed()) H5Pset_elink_cb(access.id(), &refuse_link, &out_refused);
  return access;
}

std::vector<VirtualPart> virtual_parts(hid_t properties, std::span<const std::int64_t> start,
                                       std::span<const std::int64_t> count) {
  std::size_t parts = 0;
  H5Pget_virtual_count(properties, &parts);
  std::vector<VirtualPart> found;
  for (std::size_t i = 0; i < parts; ++i) {
    auto [file, name] = source_of(properties, i);
    if (file != ".") continue;
    const Selected into = selected(SpaceHandle(H5Pget_virtual_vspace(properties, i)).id());
    const Selected from = selected(SpaceHandle(H5Pget_virtual_srcspace(properties, i)).id());
    VirtualPart part{.source = std::move(name), .start = {}, .count = {}};
    bool needed = true;
    for (std::size_t axis = 0; axis < std::min(into.first.size(), start.size()); ++axis) {
      const std::int64_t first = std::max(start[axis], into.first[axis]);
      const std::int64_t last = std::min(start[axis] + count[axis], into.first[axis] + into.size[axis]);
      needed = needed && first < last;
      if (!from.is_box || !into.is_box || from.size != into.size) continue;
      part.start.push_back(first - into.first[axis] + from.first[axis]);
      part.count.push_back(last - first);
    }
    if (needed) found.push_back(std::move(part));
  }
  return found;
}

void require_readable(hid_t file, hid_t dataset, const std::string& where) {
  const PropertyHandle properties(H5Dget_create_plist(dataset));
  FLOODTIDE_REQUIRE(properties.valid(), invalid_file, where, ": is damaged: ", hdf5_cause());
  if (!external_allowed()) require_inside(file, properties.id(), where, 0);
  require_filters(properties.id(), where);
  require_size(dataset, properties.id(), where);
}

}  // namespace floodtide::data
