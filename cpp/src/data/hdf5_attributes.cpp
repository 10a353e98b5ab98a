// SPDX-License-Identifier: Apache-2.0
// Attributes of Hdf5File.
#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "data/hdf5_impl.hpp"
#include "floodtide/base/crc32c.hpp"
#include "floodtide/data/hdf5.hpp"
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

void Hdf5File::write_attribute(const std::string& object, const std::string& attribute, std::int64_t value) {
  write_attribute_raw(object, attribute, {}, ElementType::int64, &value, 1);
}

void Hdf5File::write_attribute(const std::string& object, const std::string& attribute, double value) {
  write_attribute_raw(object, attribute, {}, ElementType::float64, &value, 1);
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

template <class T>
Array<T> read_numbers(hid_t file, const std::string& object, const std::string& name, const std::string& where) {
  const Attribute attribute(file, object, name, where);
  const ElementType found = element_type_of(attribute.type.id(), attribute.what);
  FLOODTIDE_REQUIRE(is_integer(found) == is_integer(element_type<T>()), invalid_file, attribute.what, " is ", data::name(found),
                    ", expected ", data::name(element_type<T>()));
  Array<T> array{attribute.shape, std::vector<T>(attribute.elements)};
  attribute.read(native_type(element_type<T>()), array.values.data());
  if (found == element_type<T>()) {
    verify(file, object, name, where, {reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(T)});
  }
  return array;
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

std::vector<std::string> read_texts_of(const Attribute& attribute, const std::string& path, const Superblock& superblock) {
  FLOODTIDE_REQUIRE(H5Tget_class(attribute.type.id()) == H5T_STRING, invalid_file, attribute.what, " is not a text");
  std::vector<std::string> texts = stored_texts_of(attribute, path, superblock);
  FLOODTIDE_REQUIRE(std::ranges::all_of(texts, is_utf8), invalid_file, attribute.what, " is not a text in UTF-8");
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
  return read_numbers<T>(impl_->file.id(), object, attribute, impl_->where(object));
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
  std::vector<std::string> texts =
      read_texts_of(Attribute(impl_->file.id(), object, attribute, impl_->where(object)), impl_->path, impl_->superblock);
  if (texts.size() == 1) verify(impl_->file.id(), object, attribute, impl_->where(object), texts.front());
  return texts;
}

}  // namespace floodtide::data
