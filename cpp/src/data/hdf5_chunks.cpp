// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_chunks.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

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

bool has(const Layout& layout, H5Z_filter_t filter) { return std::ranges::count(layout.filters, filter) > 0; }

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
    return require(stored == layout.chunk_bytes + kChecksumBytes * has(layout, H5Z_FILTER_FLETCHER32));
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

bool require_chunks(hid_t dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                    CheckedChunks& checked, const std::function<void()>& try_block, const std::string& where) {
  const PropertyHandle properties(H5Dget_create_plist(dataset));
  const H5D_layout_t kind = H5Pget_layout(properties.id());
  if (kind == H5D_VIRTUAL) return false;
  if (kind != H5D_CHUNKED || std::ranges::count(count, 0) > 0) return true;
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
    if (axis == 0) return true;
    ++at[axis - 1];
  }
}

}  // namespace floodtide::data
