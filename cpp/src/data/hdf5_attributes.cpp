// SPDX-License-Identifier: Apache-2.0
// Attributes of Hdf5File.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <string_view>

#include "data/hdf5_impl.hpp"
#include "floodtide/base/crc32c.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

void Hdf5File::write_attribute_raw(const std::string& object, const std::string& attribute, std::span<const std::int64_t> shape,
                                   ElementType type, const void* values, std::size_t elements) {
  const Hdf5Lock lock;
  impl_->require_writing();
  impl_->require_object(object);
  FLOODTIDE_REQUIRE(elements == element_count(object, shape), shape_mismatch, impl_->where(object), ": attribute ", attribute,
                    " of shape ", Show{shape}, " from ", elements, " values");
  if (!make_attribute(impl_->file.id(), object, attribute, native_type(type), make_space(shape), values)) {
    impl_->give_up(impl_->where(object) + ": attribute " + attribute);
  }
  const std::size_t bytes = elements * size_in_bytes(type);
  if (bytes > kLargestCheckedAttribute) {
    const std::uint32_t checksum = crc32c({static_cast<const char*>(values), bytes});
    write_attribute_raw(object, checksum_of(attribute), {}, ElementType::uint32, &checksum, 1);
  }
}

void Hdf5File::write_attribute(const std::string& object, const std::string& attribute, const std::string& text) {
  const Hdf5Lock lock;
  impl_->require_writing();
  impl_->require_object(object);
  // Variable length: text of fixed length is limited to 64 KiB in an attribute.
  const TypeHandle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.id(), H5T_VARIABLE);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  const char* pointer = text.c_str();
  if (!make_attribute(impl_->file.id(), object, attribute, type.id(), make_space({}), &pointer)) {
    impl_->give_up(impl_->where(object) + ": attribute " + attribute);
  }
  const std::uint32_t checksum = crc32c(std::string_view(pointer));  // HDF5 ends a text at its first zero
  write_attribute_raw(object, checksum_of(attribute), {}, ElementType::uint32, &checksum, 1);
}

namespace {

constexpr std::size_t kLargestAttribute = std::size_t{256} << 20;  // bytes

/// An attribute that is read: its name for messages, and its parts.
struct Attribute {
  Attribute(hid_t file, const std::string& object, const std::string& name, const std::string& where)
      : what(where + ": attribute " + name),
        handle(H5Aopen_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT)) {
    if (!handle.valid()) {
      const std::string cause = hdf5_cause();
      if (H5Aexists_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT) == 0) {
        raise(ErrorCode::invalid_file, where, ": has no attribute ", name);
      }
      raise(ErrorCode::invalid_file, what, ": is damaged: ", cause);
    }
    type = TypeHandle(H5Aget_type(handle.id()));
    const SpaceHandle space(H5Aget_space(handle.id()));
    shape = shape_of_space(space.id());
    const hssize_t points = H5Sget_simple_extent_npoints(space.id());
    FLOODTIDE_REQUIRE(type.valid() && points >= 0 && static_cast<std::size_t>(points) <= kLargestAttribute / element_bytes(),
                      invalid_file, what, ": is damaged: it has ", points, " values");
    elements = static_cast<std::size_t>(points);
  }

  [[nodiscard]] std::size_t element_bytes() const { return std::max<std::size_t>(1, H5Tget_size(type.id())); }
  void read(hid_t as, void* out_values) const {
    if (H5Aread(handle.id(), as, out_values) < 0) raise_unreadable(what);
  }

  std::string what;
  AttributeHandle handle;
  TypeHandle type;
  std::vector<std::int64_t> shape;
  std::size_t elements = 0;
};

/// Compares a value with the attribute that holds its checksum; files of others, and older ones of ours, have none.
void verify(hid_t file, const std::string& object, const std::string& name, const std::string& where, std::string_view bytes) {
  const std::string checksum = checksum_of(name);
  if (H5Aexists_by_name(file, object.c_str(), checksum.c_str(), H5P_DEFAULT) <= 0) return;
  const Attribute stored(file, object, checksum, where);
  std::int64_t value = -1;
  if (stored.elements == 1) stored.read(H5T_NATIVE_INT64, &value);
  FLOODTIDE_REQUIRE(value == std::int64_t{crc32c(bytes)}, invalid_file, where, ": attribute ", name,
                    ": is damaged, its checksum is wrong; use another copy of the file");
}

bool is_utf8(std::string_view text) {
  constexpr std::array<char32_t, 4> kLeast{0, 0x80, 0x800, 0x10000};  // smallest code points, by further bytes
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    const int ones = std::countl_one(first);
    if (ones == 1 || ones > 4) return false;
    const std::size_t more = ones == 0 ? 0 : static_cast<std::size_t>(ones) - 1;
    char32_t code = ones == 0 ? first : first & (0x7FU >> ones);
    for (std::size_t k = 0; k < more; ++k, ++i) {
      if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) return false;
      code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
    }
    if (code < kLeast.at(more) || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
  }
  return true;
}

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

/// Read the `count` texts of variable length of an open attribute. Throws Error(invalid_file) if one is damaged; the message
/// starts with `what`.
///
/// HDF5 stores such texts in a heap without a checksum, and does not check the heap. All of 30 damaged files that made the
/// library (1.10.8) crash or loop did so in this heap. Therefore the library only returns the place of the text, and this
/// function reads the heap itself.
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

std::vector<std::string> stored_texts_of(const Attribute& attribute, const std::string& path, const Superblock& superblock) {
  if (H5Tis_variable_str(attribute.type.id()) > 0) {
    return read_variable_texts(attribute.handle.id(), attribute.elements, path, superblock, attribute.what);
  }
  const std::size_t size = attribute.element_bytes();
  std::string bytes(attribute.elements * size, '\0');
  attribute.read(attribute.type.id(), bytes.data());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < attribute.elements; ++i) {
    const std::string_view text = std::string_view(bytes).substr(i * size, size);
    texts.emplace_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

}  // namespace

bool Hdf5File::has_attribute(const std::string& object, const std::string& attribute) const {
  impl_->try_first(object);
  const Hdf5Lock lock;
  if (!impl_->exists(object)) return false;
  const htri_t found = H5Aexists_by_name(impl_->file.id(), object.c_str(), attribute.c_str(), H5P_DEFAULT);
  if (found < 0) raise_unreadable(impl_->where(object) + ": attribute " + attribute);
  return found > 0;
}

template <class T>
Array<T> Hdf5File::read_attribute(const std::string& object, const std::string& attribute) const {
  impl_->try_first(object);
  const Hdf5Lock lock;
  impl_->require_object(object);
  const Attribute stored(impl_->file.id(), object, attribute, impl_->where(object));
  const ElementType wanted = element_type<T>(), found = element_type_of(stored.type.id(), stored.what);
  FLOODTIDE_REQUIRE(is_integer(found) == is_integer(wanted), invalid_file, stored.what, " is ", name(found), ", expected ",
                    name(wanted));
  Array<T> array{stored.shape, std::vector<T>(stored.elements)};
  stored.read(native_type(wanted), array.values.data());
  const std::string_view bytes(reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(T));
  if (found == wanted) verify(impl_->file.id(), object, attribute, impl_->where(object), bytes);
  return array;
}
template Array<std::int64_t> Hdf5File::read_attribute(const std::string& object, const std::string& attribute) const;
template Array<double> Hdf5File::read_attribute(const std::string& object, const std::string& attribute) const;

std::int64_t Hdf5File::read_integer(const std::string& object, const std::string& attribute) const {
  const auto array = read_attribute<std::int64_t>(object, attribute);
  FLOODTIDE_REQUIRE(array.values.size() == 1, invalid_file, impl_->where(object), ": attribute ", attribute, " has ",
                    array.values.size(), " values, expected one");
  return array.values[0];
}

std::string Hdf5File::read_text_attribute(const std::string& object, const std::string& attribute) const {
  const std::vector<std::string> texts = read_texts(object, attribute);
  FLOODTIDE_REQUIRE(texts.size() == 1, invalid_file, impl_->where(object), ": attribute ", attribute, " has ", texts.size(),
                    " texts, expected one");
  return texts.front();
}

std::vector<std::string> Hdf5File::read_texts(const std::string& object, const std::string& attribute) const {
  impl_->try_first(object);
  const Hdf5Lock lock;
  impl_->require_object(object);
  const Attribute stored(impl_->file.id(), object, attribute, impl_->where(object));
  FLOODTIDE_REQUIRE(H5Tget_class(stored.type.id()) == H5T_STRING, invalid_file, stored.what, " is not a text");
  std::vector<std::string> texts = stored_texts_of(stored, impl_->path, impl_->superblock);
  FLOODTIDE_REQUIRE(std::ranges::all_of(texts, is_utf8), invalid_file, stored.what, " is not a text in UTF-8");
  if (texts.size() == 1) verify(impl_->file.id(), object, attribute, impl_->where(object), texts.front());
  return texts;
}

}  // namespace floodtide::data
