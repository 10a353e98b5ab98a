// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/tensorflow_checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "floodtide/base/crc32c.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/input_file.hpp"

namespace floodtide::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the values are copied from little-endian files");

constexpr std::size_t kFooterBytes = 48;
constexpr std::size_t kTrailerBytes = 5;  // of a block: compression, checksum
constexpr std::uint64_t kMagic = 0xDB4775248B80FB57ULL;
constexpr int kFloat = 1;  // TensorFlow's DT_FLOAT
constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kMaxShards = 99'999;
constexpr std::int64_t kLargestIndex = 256 << 20;  // bytes; one of a thousand arrays has about 100,000
constexpr std::string_view kExpected = "a file of a TensorFlow checkpoint";

/// Reads numbers and strings one after another and refuses to run over the end.
class TableReader {
 public:
  TableReader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  [[nodiscard]] bool done() const noexcept { return at_ == bytes_.size(); }

  std::string_view take(std::uint64_t count) {
    require(count <= bytes_.size() - at_);
    const std::string_view result = bytes_.substr(at_, count);
    at_ += count;
    return result;
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    require(false);
    return 0;
  }
  std::int64_t count() {
    const std::uint64_t value = varint();
    require(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    return static_cast<std::int64_t>(value);
  }
  void require(bool sound) const {
    FLOODTIDE_REQUIRE(sound, invalid_file, "TensorFlow checkpoint ", path_, ": the index is corrupt");
  }

 private:
  std::string_view bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

/// Calls field(number, cursor) with the cursor at the value of each field of a protocol buffer; fields that it does not
/// consume (returns false) are skipped.
template <class Field>
void for_fields(std::string_view message, const std::string& path, const Field& field) {
  TableReader cursor(message, path);
  while (!cursor.done()) {
    const std::uint64_t tag = cursor.varint();
    if (field(tag >> 3, cursor)) continue;
    switch (tag & 7U) {
      case 0: cursor.varint(); break;
      case 1: cursor.take(8); break;
      case 2: cursor.take(cursor.varint()); break;
      case 5: cursor.take(4); break;
      default: cursor.require(false);
    }
  }
}

struct BlockHandle {
  std::uint64_t offset;
  std::uint64_t size;
};
BlockHandle read_handle(TableReader& cursor) {
  const std::uint64_t offset = cursor.varint();
  return {offset, cursor.varint()};
}

/// The contents of a block, its checksum verified.
std::string_view block(const std::string& file, const BlockHandle& handle, const std::string& path) {
  FLOODTIDE_REQUIRE(handle.offset <= file.size() && handle.size <= file.size() - handle.offset &&
                        kTrailerBytes <= file.size() - handle.offset - handle.size,
                    invalid_file, "TensorFlow checkpoint ", path, ": the index is truncated");
  const auto bytes = std::string_view(file).substr(handle.offset, handle.size + kTrailerBytes);
  TableReader trailer(bytes.substr(handle.size + 1), path);
  FLOODTIDE_REQUIRE(trailer.fixed<std::uint32_t>() == masked_crc32c(bytes.substr(0, handle.size + 1)), invalid_file,
                    "TensorFlow checkpoint ", path, ": the checksum of the index is wrong: the file is corrupt");
  FLOODTIDE_REQUIRE(bytes[handle.size] == 0, unsupported, "TensorFlow checkpoint ", path,
                    ": the index is compressed, expected an uncompressed one (as TensorFlow 1 and 2 write by default)");
  return bytes.substr(0, handle.size);
}

/// Calls entry(key, value) for the entries of a block, whose keys are stored without the prefix shared with the one before.
template <class Handle>
void for_entries(std::string_view bytes, const std::string& path, const Handle& entry) {
  TableReader end(bytes.substr(bytes.size() - std::min(bytes.size(), sizeof(std::uint32_t))), path);
  const std::uint64_t restarts = (std::uint64_t{end.fixed<std::uint32_t>()} + 1) * sizeof(std::uint32_t);
  end.require(restarts <= bytes.size());
  TableReader cursor(bytes.substr(0, bytes.size() - restarts), path);
  std::string key;
  while (!cursor.done()) {
    const std::uint64_t shared = cursor.varint(), rest = cursor.varint(), value_size = cursor.varint();
    cursor.require(shared <= key.size());
    key.resize(shared);
    key += cursor.take(rest);
    entry(key, cursor.take(value_size));
  }
}

TensorflowCheckpoint::Entry parse_entry(const std::string& name, std::string_view message, const std::string& path) {
  TensorflowCheckpoint::Entry entry{name, {}, 0, 0, 0, 0, 0};
  const auto dimension = [&](std::string_view bytes) {
    std::int64_t extent = 0;
    for_fields(bytes, path, [&](std::uint64_t number, TableReader& cursor) {
      if (number == 1) extent = cursor.count();
      return number == 1;
    });
    entry.shape.push_back(extent);
  };
  for_fields(message, path, [&](std::uint64_t number, TableReader& cursor) {
    switch (number) {
      case 1: entry.type = static_cast<int>(cursor.varint()); return true;
      case 2:
        for_fields(cursor.take(cursor.varint()), path, [&](std::uint64_t inner, TableReader& shape) {
          if (inner == 2) dimension(shape.take(shape.varint()));
          return inner == 2;
        });
        return true;
      case 3: entry.shard = cursor.count(); return true;
      case 4: entry.offset = cursor.count(); return true;
      case 5: entry.size = cursor.count(); return true;
      case 6: entry.checksum = cursor.fixed<std::uint32_t>(); return true;
      case 7:
        raise(ErrorCode::unsupported, "TensorFlow checkpoint ", path, ": '", name,
              "' is stored in slices, expected whole arrays");
      default: return false;
    }
  });
  return entry;
}

/// Elements of the shape, or -1 if that overflows.
std::int64_t elements(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) return -1;
  }
  return product;
}

std::string data_path(const std::string& prefix, std::int64_t shard, std::int64_t shards) {
  char suffix[64];
  std::snprintf(suffix, sizeof(suffix), ".data-%05lld-of-%05lld", static_cast<long long>(shard),
                static_cast<long long>(shards));
  return prefix + suffix;
}

/// Bytes of a file; fewer if it has been cut since its size was asked for.
std::string bytes_of(const InputFile& file, std::int64_t at, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  bytes.resize(file.read(at, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace

TensorflowCheckpoint::TensorflowCheckpoint(const std::string& prefix) : prefix_(prefix) {
  const std::string path = prefix + ".index";
  const InputFile index_file(path, kExpected);
  FLOODTIDE_REQUIRE(index_file.size() <= kLargestIndex, invalid_file, "TensorFlow checkpoint ", path, ": ", index_file.size(),
                    " bytes are too many for an index, expected at most ", kLargestIndex);
  const std::string file = bytes_of(index_file, 0, index_file.size());
  FLOODTIDE_REQUIRE(file.size() >= kFooterBytes, invalid_file, "TensorFlow checkpoint ", path, ": ", file.size(),
                    " bytes are too few for an index: the file is truncated or another kind of file");
  TableReader magic(std::string_view(file).substr(file.size() - sizeof(kMagic)), path);
  FLOODTIDE_REQUIRE(magic.fixed<std::uint64_t>() == kMagic, invalid_file, "TensorFlow checkpoint ", path,
                    ": no index ends here: the file is truncated or another kind of file");
  TableReader footer(std::string_view(file).substr(file.size() - kFooterBytes), path);
  read_handle(footer);  // of the meta index, which bundles leave empty
  const BlockHandle index = read_handle(footer);
  for_entries(block(file, index, path), path, [&](const std::string&, std::string_view handle_bytes) {
    TableReader cursor(handle_bytes, path);
    for_entries(block(file, read_handle(cursor), path), path, [&](const std::string& key, std::string_view value) {
      if (!key.empty()) {
        entries_.push_back(parse_entry(key, value, path));
        return;
      }
      for_fields(value, path, [&](std::uint64_t number, TableReader& header) {
        if (number == 1) shards_ = header.count();
        if (number == 2) {
          FLOODTIDE_REQUIRE(header.varint() == 0, unsupported, "TensorFlow checkpoint ", path, ": it is big-endian");
        }
        return number == 1 || number == 2;
      });
    });
  });
  FLOODTIDE_REQUIRE(shards_ >= 1 && shards_ <= kMaxShards, invalid_file, "TensorFlow checkpoint ", path, ": the index names ",
                    shards_, " data files, expected 1 to ", kMaxShards);
}

bool TensorflowCheckpoint::is_float(const Entry& entry) noexcept { return entry.type == kFloat; }

std::vector<float> TensorflowCheckpoint::read(const Entry& entry) const {
  const std::string path = data_path(prefix_, entry.shard, shards_);
  FLOODTIDE_REQUIRE(is_float(entry), unsupported, "TensorFlow checkpoint ", path, ": '", entry.name, "' has TensorFlow type ",
                    entry.type, ", expected float32 (", kFloat, ")");
  const std::int64_t count = elements(entry.shape);
  FLOODTIDE_REQUIRE(count >= 0 && entry.size % kFloatBytes == 0 && entry.size / kFloatBytes == count, invalid_file,
                    "TensorFlow checkpoint ", prefix_, ".index: '", entry.name, "' has ", entry.size,
                    " bytes, which do not fit its shape");
  const InputFile file(path, kExpected);
  const std::int64_t available = file.size();
  FLOODTIDE_REQUIRE(entry.offset <= available && entry.size <= available - entry.offset, invalid_file, "TensorFlow checkpoint ",
                    path, ": '", entry.name, "' ends beyond the file's ", available, " bytes: it is truncated");
  const std::string bytes = bytes_of(file, entry.offset, entry.size);
  FLOODTIDE_REQUIRE(masked_crc32c(bytes) == entry.checksum, invalid_file, "TensorFlow checkpoint ", path, ": the checksum of '",
                    entry.name, "' is wrong: the file is corrupt");
  std::vector<float> values(static_cast<std::size_t>(count));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace floodtide::data
