// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_trust.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
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

using Bytes = std::array<unsigned char, kSuperblockBytes>;

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
  return {version,     hdf5_number(bytes.data() + addresses + 2 * offset_size, offset_size),
          file_bytes,  hdf5_number(bytes.data() + addresses, offset_size),
          offset_size, bytes[old ? 14 : 10]};
}

herr_t refuse_link(const char*, const char*, const char* file, const char*, unsigned*, hid_t, void* out_refused) {
  *static_cast<std::string*>(out_refused) = file;
  return -1;
}

/// Names of registered filters (https://github.com/HDFGroup/hdf5_plugins, docs/RegisteredFilterPlugins.md).
std::string filter_name(H5Z_filter_t id, const char* stored) {
  using Row = std::pair<H5Z_filter_t, const char*>;
  static constexpr std::array kRows{Row{H5Z_FILTER_DEFLATE, "gzip"},
                                    Row{H5Z_FILTER_SZIP, "SZIP"},
                                    Row{307, "BZIP2"},
                                    Row{32000, "LZF"},
                                    Row{32001, "Blosc"},
                                    Row{32004, "LZ4"},
                                    Row{32008, "bitshuffle"},
                                    Row{32010, "fpzip"},
                                    Row{32013, "ZFP"},
                                    Row{32015, "Zstandard"},
                                    Row{32017, "SZ"},
                                    Row{32023, "FCIDECOMP"},
                                    Row{32024, "JPEG"},
                                    Row{32026, "Blosc2"}};
  const auto known = std::ranges::find(kRows, id, &Row::first);
  if (known != kRows.end()) return known->second;
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
          "), which is not installed; ",
          id == 32000 ? "write the dataset again with h5py, which can read it"
                      : "convert the file where it is: h5repack -f GZIP=4 OLD.h5 NEW.h5");
  }
}

/// A virtual dataset may have its values in another file too.
void require_inside(hid_t properties, const std::string& where) {
  FLOODTIDE_REQUIRE(H5Pget_layout(properties) != H5D_VIRTUAL, invalid_file, where,
                    ": has its values in another dataset or another file (it is a virtual dataset); set ", kAllowExternal,
                    "=1 if you trust it");
  if (H5Pget_external_count(properties) == 0) return;
  std::array<char, 256> name{};
  off_t offset = 0;
  hsize_t size = 0;
  H5Pget_external(properties, 0, name.size() - 1, name.data(), &offset, &size);
  raise(ErrorCode::invalid_file, where, ": has its values in another file, ", name.data(), "; set ", kAllowExternal,
        "=1 if you trust it");
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

constexpr hsize_t kChecksumBytes = 4;      // that Fletcher-32 adds
constexpr hsize_t kGrowthBytes = 1 << 16;  // more than any filter adds to a chunk that it cannot compress, beside a half of it

/// How the chunks of a dataset are stored.
struct Layout {
  std::vector<hsize_t> shape, chunk;
  hsize_t chunk_bytes;
  std::vector<H5Z_filter_t> filters;  // in the order of writing
  bool edges_unfiltered;              // chunks that reach beyond the dataset are stored as they are
};

Layout layout_of(hid_t dataset, hid_t properties) {
  const SpaceHandle space(H5Dget_space(dataset));
  const TypeHandle type(H5Dget_type(dataset));
  Layout layout{};
  layout.shape.resize(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.id()))));
  layout.chunk.resize(layout.shape.size());
  H5Sget_simple_extent_dims(space.id(), layout.shape.data(), nullptr);
  H5Pget_chunk(properties, static_cast<int>(layout.chunk.size()), layout.chunk.data());
  layout.chunk_bytes = H5Tget_size(type.id());
  for (const hsize_t extent : layout.chunk) layout.chunk_bytes *= extent;  // the library allows for less than 2^32
  for (int i = 0; i < H5Pget_nfilters(properties); ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    layout.filters.push_back(
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config));
  }
  unsigned options = 0;
  H5Pget_chunk_opts(properties, &options);
  layout.edges_unfiltered = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  return layout;
}

/// True for SZIP, nbit, scale-offset and plug-ins: their decoders do not check the contents of a chunk.
bool has_unknown_filter(const Layout& layout) {
  return std::ranges::any_of(layout.filters, [](H5Z_filter_t filter) {
    return filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32;
  });
}

/// Bytes that zlib makes of its input; at most one more than `most`. 0 if it is damaged.
hsize_t inflated_bytes(std::span<const unsigned char> input, hsize_t most) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return 0;
  stream.next_in = const_cast<unsigned char*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  std::array<unsigned char, 1 << 15> out{};
  hsize_t bytes = 0;
  int status = Z_OK;
  while (status == Z_OK && bytes <= most) {
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(out.size());
    status = inflate(&stream, Z_NO_FLUSH);
    bytes += out.size() - stream.avail_out;
  }
  inflateEnd(&stream);
  return status == Z_STREAM_END || bytes > most ? bytes : 0;
}

/// Whether the filters of a chunk, undone from the last to the first, give as many bytes as a chunk has. True where it cannot
/// be known, and where a checksum covers the bytes: damage is noticed then.
bool has_right_size(const Layout& layout, unsigned skipped, std::span<const unsigned char> stored) {
  hsize_t behind = 0;  // checksums that filters before the current one have added
  for (std::size_t i = 0; i < layout.filters.size(); ++i) {
    if ((skipped >> i & 1U) == 0 && layout.filters[i] == H5Z_FILTER_FLETCHER32) behind += kChecksumBytes;
  }
  for (std::size_t i = layout.filters.size(); i-- > 0;) {
    if ((skipped >> i & 1U) != 0 || layout.filters[i] == H5Z_FILTER_SHUFFLE) continue;
    if (layout.filters[i] != H5Z_FILTER_DEFLATE) return true;
    const hsize_t expected = layout.chunk_bytes + behind;
    return inflated_bytes(stored, expected) == expected;
  }
  return stored.size() == layout.chunk_bytes;
}

void require_chunk(hid_t dataset, const Layout& layout, std::span<const hsize_t> offset, const std::string& where) {
  hsize_t stored = 0;
  if (H5Dget_chunk_storage_size(dataset, offset.data(), &stored) < 0) {
    const std::string cause = hdf5_cause();  // also of a chunk that was never written, beside others that were
    FLOODTIDE_REQUIRE(cause.find("not allocated") != std::string::npos, invalid_file, where,
                      ": is damaged: one of its chunks cannot be found: ", cause);
  }
  if (stored == 0) return;  // never written
  bool at_edge = false;
  for (std::size_t axis = 0; axis < offset.size(); ++axis) {
    at_edge = at_edge || offset[axis] + layout.chunk[axis] > layout.shape[axis];
  }
  const auto require = [&](bool sound) {
    FLOODTIDE_REQUIRE(sound, invalid_file, where, ": is damaged: one of its chunks, of ", stored,
                      " bytes in the file, has not the size of ", layout.chunk_bytes, " bytes that it should have");
  };
  if (layout.filters.empty() || (at_edge && layout.edges_unfiltered)) return require(stored == layout.chunk_bytes);
  const bool compressed = std::ranges::any_of(
      layout.filters, [](H5Z_filter_t filter) { return filter != H5Z_FILTER_FLETCHER32 && filter != H5Z_FILTER_SHUFFLE; });
  if (!compressed) {
    const bool checked = std::ranges::count(layout.filters, H5Z_FILTER_FLETCHER32) > 0;
    return require(stored == layout.chunk_bytes + (checked ? kChecksumBytes : 0));
  }
  require(stored <= layout.chunk_bytes + layout.chunk_bytes / 2 + kGrowthBytes);
  std::vector<unsigned char> bytes(stored);
  std::uint32_t skipped = 0;
  FLOODTIDE_REQUIRE(H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &skipped, bytes.data()) >= 0, invalid_file, where,
                    ": is damaged: one of its chunks cannot be read");
  require(skipped >> std::min<std::size_t>(layout.filters.size(), 31) == 0);
  require(has_right_size(layout, skipped, bytes));
}

}  // namespace

std::uint64_t hdf5_number(const unsigned char* bytes, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

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

void require_readable(hid_t dataset, const std::string& where) {
  const PropertyHandle properties(H5Dget_create_plist(dataset));
  FLOODTIDE_REQUIRE(properties.valid(), invalid_file, where, ": is damaged: ", hdf5_cause());
  if (!external_allowed()) require_inside(properties.id(), where);
  require_filters(properties.id(), where);
  require_size(dataset, properties.id(), where);
}

void require_chunks(hid_t dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                    CheckedChunks& checked, const std::function<void()>& try_block, const std::string& where) {
  const PropertyHandle properties(H5Dget_create_plist(dataset));
  if (H5Pget_layout(properties.id()) != H5D_CHUNKED || std::ranges::count(count, 0) > 0) return;
  const Layout layout = layout_of(dataset, properties.id());
  const std::size_t rank = layout.shape.size();
  std::vector<hsize_t> first(rank), last(rank), at(rank), offset(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    first[axis] = static_cast<hsize_t>(start[axis]) / layout.chunk[axis];
    last[axis] = static_cast<hsize_t>(start[axis] + count[axis] - 1) / layout.chunk[axis];
  }
  at = first;
  bool tried = !has_unknown_filter(layout);
  for (;;) {
    std::int64_t number = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const hsize_t chunks = (layout.shape[axis] + layout.chunk[axis] - 1) / layout.chunk[axis];
      number = number * static_cast<std::int64_t>(chunks) + static_cast<std::int64_t>(at[axis]);
      offset[axis] = at[axis] * layout.chunk[axis];
    }
    if (!checked.contains(number)) {
      if (!std::exchange(tried, true)) try_block();
      require_chunk(dataset, layout, offset, where);
      checked.insert(number);
    }
    std::size_t axis = rank;
    while (axis > 0 && at[axis - 1] == last[axis - 1]) {
      --axis;
      at[axis] = first[axis];
    }
    if (axis == 0) return;
    ++at[axis - 1];
  }
}

}  // namespace floodtide::data
