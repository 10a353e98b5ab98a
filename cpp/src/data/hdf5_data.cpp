// SPDX-License-Identifier: Apache-2.0
// Datasets and attributes of Hdf5File.
#include <limits>

#include "data/hdf5_impl.hpp"
#include "data/hdf5_types.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {
namespace {

PropertyHandle creation_properties(ElementType type, std::span<const std::int64_t> shape, const DatasetOptions& options,
                                   const std::string& where) {
  PropertyHandle properties(H5Pcreate(H5P_DATASET_CREATE));
  FLOODTIDE_REQUIRE(options.gzip >= 0 && options.gzip <= 9, invalid_argument, where, ": gzip level is ", options.gzip,
                    ", expected 0 to 9");
  FLOODTIDE_REQUIRE(options.gzip == 0 || !options.chunks.empty(), invalid_argument, where, ": gzip needs chunks");
  if (!options.chunks.empty()) {
    FLOODTIDE_REQUIRE(options.chunks.size() == shape.size(), shape_mismatch, where, ": chunks have ", options.chunks.size(),
                      " axes, the dataset has ", shape.size());
    const std::vector<hsize_t> sizes = hdf5_sizes(options.chunks);
    H5Pset_chunk(properties.id(), static_cast<int>(sizes.size()), sizes.data());
  }
  if (options.gzip > 0) {
    if (size_in_bytes(type) > 1) H5Pset_shuffle(properties.id());
    H5Pset_deflate(properties.id(), static_cast<unsigned>(options.gzip));
  }
  if (options.fill != 0) H5Pset_fill_value(properties.id(), H5T_NATIVE_DOUBLE, &options.fill);
  return properties;
}

/// The file space with the block selected, and its memory space.
struct BlockSpaces {
  SpaceHandle file;
  SpaceHandle memory;
};

BlockSpaces block_spaces(hid_t dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count) {
  BlockSpaces spaces{SpaceHandle(H5Dget_space(dataset)), make_space(count)};
  if (!count.empty()) {
    const std::vector<hsize_t> offset = hdf5_sizes(start);
    const std::vector<hsize_t> size = hdf5_sizes(count);
    H5Sselect_hyperslab(spaces.file.id(), H5S_SELECT_SET, offset.data(), nullptr, size.data(), nullptr);
  }
  return spaces;
}

}  // namespace

DatasetInfo Hdf5File::info(const std::string& dataset) const {
  const Hdf5Lock lock;
  const hid_t id = impl_->dataset(dataset);
  const TypeHandle type(H5Dget_type(id));
  DatasetInfo info{.shape = {}, .chunks = {}, .type = element_type_of(type.id(), impl_->where(dataset))};
  info.shape = shape_of_space(SpaceHandle(H5Dget_space(id)).id());
  const PropertyHandle properties(H5Dget_create_plist(id));
  if (H5Pget_layout(properties.id()) == H5D_CHUNKED) {
    std::vector<hsize_t> chunks(info.shape.size());
    H5Pget_chunk(properties.id(), static_cast<int>(chunks.size()), chunks.data());
    info.chunks.assign(chunks.begin(), chunks.end());
  }
  return info;
}

std::size_t Hdf5File::element_count(const std::string& dataset, std::span<const std::int64_t> shape) const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    FLOODTIDE_REQUIRE(!__builtin_mul_overflow(count, extent, &count) && count < std::int64_t{1} << 48, invalid_file,
                      impl_->where(dataset), ": shape ", Show{shape}, " is too large");
  }
  return static_cast<std::size_t>(count);
}

DatasetInfo Hdf5File::checked_info(const std::string& dataset, ElementType type) const {
  DatasetInfo found = info(dataset);
  FLOODTIDE_REQUIRE(found.type == type, invalid_file, impl_->where(dataset), ": elements are ", name(found.type), ", expected ",
                    name(type));
  return found;
}

void Hdf5File::checked_block(const std::string& dataset, ElementType type, std::span<const std::int64_t> start,
                             std::span<const std::int64_t> count, std::size_t elements) const {
  const DatasetInfo found = checked_info(dataset, type);
  const auto fits = [&] {
    if (start.size() != found.shape.size() || count.size() != found.shape.size()) return false;
    for (std::size_t axis = 0; axis < count.size(); ++axis) {
      if (start[axis] < 0 || count[axis] < 0 || start[axis] > found.shape[axis] - count[axis]) return false;
    }
    return true;
  };
  FLOODTIDE_REQUIRE(fits(), out_of_range, impl_->where(dataset), ": block at ", Show{start}, " of size ", Show{count},
                    " is not inside shape ", Show{found.shape});
  FLOODTIDE_REQUIRE(elements == element_count(dataset, count), shape_mismatch, impl_->where(dataset), ": block of size ",
                    Show{count}, " for an array of ", elements, " elements");
}

void Hdf5File::read_raw(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                        ElementType type, void* out) const {
  const Hdf5Lock lock;
  const hid_t id = impl_->dataset(dataset);
  const BlockSpaces spaces = block_spaces(id, start, count);
  if (H5Dread(id, native_type(type), spaces.memory.id(), spaces.file.id(), H5P_DEFAULT, out) < 0) {
    raise(ErrorCode::invalid_file, impl_->where(dataset), ": cannot be read: ", hdf5_cause());
  }
}

void Hdf5File::create_dataset(const std::string& dataset, ElementType type, std::span<const std::int64_t> shape,
                              const DatasetOptions& options) {
  const Hdf5Lock lock;
  impl_->require_writing();
  const std::string where = impl_->where(dataset);
  const PropertyHandle links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.id(), 1);
  const PropertyHandle properties = creation_properties(type, shape, options, where);
  const SpaceHandle space = make_space(shape);
  DatasetHandle handle(
      H5Dcreate2(impl_->file.id(), dataset.c_str(), native_type(type), space.id(), links.id(), properties.id(), H5P_DEFAULT));
  if (!handle.valid()) impl_->give_up(where);
  impl_->datasets.emplace(dataset, std::move(handle));
}

void Hdf5File::write_raw(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                         ElementType type, const void* values) {
  const Hdf5Lock lock;
  impl_->require_writing();
  const hid_t id = impl_->dataset(dataset);
  const BlockSpaces spaces = block_spaces(id, start, count);
  if (H5Dwrite(id, native_type(type), spaces.memory.id(), spaces.file.id(), H5P_DEFAULT, values) < 0) {
    impl_->give_up(impl_->where(dataset));
  }
}

void Hdf5File::create_group(const std::string& group) {
  const Hdf5Lock lock;
  impl_->require_writing();
  const PropertyHandle links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.id(), 1);
  const GroupHandle handle(H5Gcreate2(impl_->file.id(), group.c_str(), links.id(), H5P_DEFAULT, H5P_DEFAULT));
  if (!handle.valid()) impl_->give_up(impl_->where(group));
}

void Hdf5File::write_attribute_raw(const std::string& object, const std::string& attribute, std::span<const std::int64_t> shape,
                                   ElementType type, const void* values, std::size_t elements) {
  const Hdf5Lock lock;
  impl_->require_writing();
  impl_->require_object(object);
  FLOODTIDE_REQUIRE(elements == element_count(object, shape), shape_mismatch, impl_->where(object), ": attribute ", attribute,
                    " of shape ", Show{shape}, " from ", elements, " values");
  const SpaceHandle space = make_space(shape);
  const AttributeHandle handle(H5Acreate_by_name(impl_->file.id(), object.c_str(), attribute.c_str(), native_type(type),
                                                 space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  if (!handle.valid() || H5Awrite(handle.id(), native_type(type), values) < 0) {
    impl_->give_up(impl_->where(object) + ": attribute " + attribute);
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
  const SpaceHandle space = make_space({});
  const AttributeHandle handle(H5Acreate_by_name(impl_->file.id(), object.c_str(), attribute.c_str(), type.id(), space.id(),
                                                 H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  const char* pointer = text.c_str();
  if (!handle.valid() || H5Awrite(handle.id(), type.id(), &pointer) < 0) {
    impl_->give_up(impl_->where(object) + ": attribute " + attribute);
  }
}

namespace {

AttributeHandle open_attribute(hid_t file, const std::string& object, const std::string& attribute, const std::string& where) {
  AttributeHandle handle(H5Aopen_by_name(file, object.c_str(), attribute.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  if (!handle.valid()) {
    H5Eclear2(H5E_DEFAULT);
    raise(ErrorCode::invalid_file, where, ": has no attribute ", attribute);
  }
  return handle;
}

}  // namespace

bool Hdf5File::has_attribute(const std::string& object, const std::string& attribute) const {
  const Hdf5Lock lock;
  return impl_->exists(object) && H5Aexists_by_name(impl_->file.id(), object.c_str(), attribute.c_str(), H5P_DEFAULT) > 0;
}

namespace {

template <class T>
Array<T> read_numbers(hid_t file, const std::string& object, const std::string& attribute, const std::string& where) {
  const AttributeHandle handle = open_attribute(file, object, attribute, where);
  const TypeHandle type(H5Aget_type(handle.id()));
  const std::string what = where + ": attribute " + attribute;
  const ElementType found = element_type_of(type.id(), what);
  FLOODTIDE_REQUIRE(is_integer(found) == is_integer(element_type<T>()), invalid_file, what, " is ", name(found), ", expected ",
                    name(element_type<T>()));
  Array<T> array;
  const SpaceHandle space(H5Aget_space(handle.id()));
  array.shape = shape_of_space(space.id());
  array.values.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.id())));
  if (H5Aread(handle.id(), native_type(element_type<T>()), array.values.data()) < 0) {
    raise(ErrorCode::invalid_file, what, " cannot be read: ", hdf5_cause());
  }
  return array;
}

}  // namespace

template <>
Array<std::int64_t> Hdf5File::read_attribute<std::int64_t>(const std::string& object, const std::string& attribute) const {
  const Hdf5Lock lock;
  impl_->require_object(object);
  return read_numbers<std::int64_t>(impl_->file.id(), object, attribute, impl_->where(object));
}

template <>
Array<double> Hdf5File::read_attribute<double>(const std::string& object, const std::string& attribute) const {
  const Hdf5Lock lock;
  impl_->require_object(object);
  return read_numbers<double>(impl_->file.id(), object, attribute, impl_->where(object));
}

std::string Hdf5File::read_text_attribute(const std::string& object, const std::string& attribute) const {
  const Hdf5Lock lock;
  impl_->require_object(object);
  const std::string what = impl_->where(object) + ": attribute " + attribute;
  const AttributeHandle handle = open_attribute(impl_->file.id(), object, attribute, impl_->where(object));
  const TypeHandle stored(H5Aget_type(handle.id()));
  FLOODTIDE_REQUIRE(H5Tget_class(stored.id()) == H5T_STRING, invalid_file, what, " is not text");
  if (H5Tis_variable_str(stored.id()) > 0) {
    char* text = nullptr;
    if (H5Aread(handle.id(), stored.id(), &text) < 0) raise(ErrorCode::invalid_file, what, " cannot be read: ", hdf5_cause());
    std::string result = text == nullptr ? "" : text;
    H5free_memory(text);
    return result;
  }
  std::string result(H5Tget_size(stored.id()), '\0');
  if (H5Aread(handle.id(), stored.id(), result.data()) < 0) {
    raise(ErrorCode::invalid_file, what, " cannot be read: ", hdf5_cause());
  }
  result.resize(result.find('\0') == std::string::npos ? result.size() : result.find('\0'));
  return result;
}

}  // namespace floodtide::data
