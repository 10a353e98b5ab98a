// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "data/hdf5_impl.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

/// How an attribute refers to its text, with addresses of 8 bytes.
using Reference = std::array<unsigned char, 16>;  // length, address of the collection, number in it

/// Leaves the bytes as they are in the file.
herr_t keep_bytes(hid_t, hid_t, H5T_cdata_t* data, std::size_t, std::size_t, std::size_t, void*, void*, hid_t) {
  if (data->command == H5T_CONV_INIT) data->need_bkg = H5T_BKG_NO;
  return 0;
}

/// A type that texts of variable length are "converted" to without following their reference.
hid_t reference_type() {
  static const hid_t type = [] {
    const hid_t opaque = H5Tcreate(H5T_OPAQUE, sizeof(Reference));
    H5Tset_tag(opaque, "floodtide: reference to a text");
    const TypeHandle text(H5Tcopy(H5T_C_S1));
    H5Tset_size(text.id(), H5T_VARIABLE);
    // The library has no other conversion from this class to bytes, so this one is used here only.
    H5Tregister(H5T_PERS_SOFT, "floodtide_text_reference", text.id(), opaque, &keep_bytes);
    return opaque;
  }();
  return type;
}

/// Source: HDF5 File Format Specification Version 3.0, III.E "Disk Format: Level 1E - Global Heap".
class Collection {
 public:
  Collection(const std::string& path, std::uint64_t begin, std::uint64_t file_bytes, const std::string& what)
      : stream_(path, std::ios::binary), what_(what), at_(begin), end_(file_bytes) {
    std::array<unsigned char, kHeaderBytes> header{};
    read(header.data(), header.size());
    const std::uint64_t size = hdf5_number(header.data() + 8, 8);
    require(std::memcmp(header.data(), "GCOL\x01", 5) == 0 && size >= kHeaderBytes && size <= file_bytes - begin);
    end_ = begin + size;
  }

  /// The bytes of the object with this number.
  std::string object(std::uint64_t wanted) {
    for (;;) {
      std::array<unsigned char, kHeaderBytes> header{};
      read(header.data(), header.size());
      const std::uint64_t index = hdf5_number(header.data(), 2), size = hdf5_number(header.data() + 8, 8);
      require(index != 0 && size <= end_ - at_);  // 0: the free space at the end
      if (index == wanted) {
        std::string bytes(size, '\0');
        read(bytes.data(), size);
        return bytes;
      }
      at_ += (size + 7) / 8 * 8;
    }
  }

 private:
  static constexpr std::size_t kHeaderBytes = 16;  // of a collection and of an object, with lengths of 8 bytes

  void read(void* out, std::uint64_t size) {
    require(at_ <= end_ && size <= end_ - at_);
    stream_.seekg(static_cast<std::streamoff>(at_));
    stream_.read(static_cast<char*>(out), static_cast<std::streamsize>(size));
    require(stream_.good());
    at_ += size;
  }
  void require(bool sound) const {
    FLOODTIDE_REQUIRE(sound, invalid_file, what_, ": is damaged: its text is not where it should be");
  }

  std::ifstream stream_;
  const std::string& what_;
  std::uint64_t at_, end_;
};

}  // namespace

std::vector<std::string> read_variable_texts(hid_t attribute, std::size_t count, const std::string& path,
                                             const Superblock& superblock, const std::string& what) {
  FLOODTIDE_REQUIRE(superblock.offset_size == 8 && superblock.length_size == 8, invalid_file, what,
                    ": is in a file with addresses of ", superblock.offset_size, " bytes, expected 8");
  std::vector<Reference> references(count);
  if (H5Aread(attribute, reference_type(), references.data()) < 0) {
    raise(ErrorCode::invalid_file, what, ": cannot be read: ", hdf5_cause());
  }
  std::vector<std::string> texts;
  for (const Reference& reference : references) {
    const std::uint64_t length = hdf5_number(reference.data(), 4), address = hdf5_number(reference.data() + 4, 8);
    std::string& text = texts.emplace_back();
    if (length == 0) continue;
    FLOODTIDE_REQUIRE(superblock.base <= superblock.file_bytes && address < superblock.file_bytes - superblock.base,
                      invalid_file, what, ": is damaged: its text is not in the file");
    const std::string bytes =
        Collection(path, superblock.base + address, superblock.file_bytes, what).object(hdf5_number(reference.data() + 12, 4));
    text = bytes.substr(0, std::min<std::size_t>(bytes.find('\0'), length));
  }
  return texts;
}

}  // namespace floodtide::data
