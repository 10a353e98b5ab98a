// SPDX-License-Identifier: Apache-2.0
// Datasets of Hdf5File.
#include <algorithm>
#include <functional>
#include <limits>

#include "data/hdf5_check.hpp"
#include "data/hdf5_impl.hpp"
#include "floodtide/base/available_memory.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {
namespace {

constexpr std::size_t kLargeBytes = std::size_t{64} << 20;  // from here on the system is asked for memory first
// From here on a dataset's size is compared with its file's. gzip reaches a ratio of 1032; the rest allows for empty chunks.
constexpr std::int64_t kSuspiciousBytes = std::int64_t{1} << 26;
constexpr std::int64_t kLargestRatio = 8'000;

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

void require_inside(std::span<const std::int64_t> shape, std::span<const std::int64_t> start,
                    std::span<const std::int64_t> count, const std::string& where) {
  bool inside = start.size() == shape.size() && count.size() == shape.size();
  for (std::size_t axis = 0; inside && axis < count.size(); ++axis) {
    inside = start[axis] >= 0 && count[axis] >= 0 && start[axis] <= shape[axis] - count[axis];
  }
  FLOODTIDE_REQUIRE(inside, out_of_range, where, ": block at ", Show{start}, " of size ", Show{count}, " is not inside shape ",
                    Show{shape});
}

}  // namespace

DatasetInfo Hdf5File::info(const std::string& dataset) const {
  impl_->try_first(dataset);
  const Hdf5Lock lock;
  const hid_t id = impl_->dataset(dataset);
  const TypeHandle type(H5Dget_type(id));
  DatasetInfo info{.shape = {}, .chunks = {}, .type = element_type_of(type.id(), impl_->where(dataset))};
  info.shape = shape_of_space(SpaceHandle(H5Dget_space(id)).id());
  const std::size_t elements = element_count(dataset, info.shape);
  const PropertyHandle properties(H5Dget_create_plist(id));
  const H5D_layout_t layout = H5Pget_layout(properties.id());
  if (layout == H5D_CHUNKED) {
    std::vector<hsize_t> chunks(info.shape.size());
    H5Pget_chunk(properties.id(), static_cast<int>(chunks.size()), chunks.data());
    info.chunks.assign(chunks.begin(), chunks.end());
    require_room(dataset, element_count(dataset, info.chunks), info.type);
  }
  const auto bytes = static_cast<std::int64_t>(elements * size_in_bytes(info.type));
  const bool elsewhere = layout == H5D_VIRTUAL || H5Pget_external_count(properties.id()) > 0;
  FLOODTIDE_REQUIRE(impl_->writing || elsewhere || bytes < kSuspiciousBytes ||
                        bytes / kLargestRatio <= static_cast<std::int64_t>(impl_->superblock.file_bytes),
                    invalid_file, impl_->where(dataset), ": is said to hold ", bytes, " bytes of shape ", Show{info.shape},
                    ", but the whole file has ", impl_->superblock.file_bytes, ": it is damaged or was never filled");
  return info;
}

std::pair<std::int64_t, std::int64_t> Hdf5File::absent_chunks(const std::string& dataset) const {
  constexpr std::int64_t kMost = 65536;  // the library visits them all
  const DatasetInfo found = info(dataset);
  const Hdf5Lock lock;
  const hid_t id = impl_->dataset(dataset);
  const PropertyHandle properties(H5Dget_create_plist(id));
  if (H5Pget_layout(properties.id()) == H5D_VIRTUAL || H5Pget_external_count(properties.id()) > 0) return {0, 0};
  if (found.chunks.empty()) return {H5Dget_storage_size(id) == 0 ? 1 : 0, 1};
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < found.shape.size(); ++axis) {
    count *= (found.shape[axis] + found.chunks[axis] - 1) / found.chunks[axis];
    if (count > kMost) return {0, 0};
  }
  hsize_t stored = 0;
  FLOODTIDE_REQUIRE(H5Dget_num_chunks(id, SpaceHandle(H5Dget_space(id)).id(), &stored) >= 0, invalid_file,
                    impl_->where(dataset), ": the index of its chunks cannot be read");
  return {std::max<std::int64_t>(0, count - static_cast<std::int64_t>(stored)), count};
}

std::size_t Hdf5File::element_count(const std::string& dataset, std::span<const std::int64_t> shape) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 16;  // bytes fit into 64 bits too
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    FLOODTIDE_REQUIRE(extent >= 0 && !__builtin_mul_overflow(count, extent, &count) && count <= kMost, invalid_file,
                      impl_->where(dataset), ": shape ", Show{shape}, " is too large");
  }
  return static_cast<std::size_t>(count);
}

void Hdf5File::require_room(const std::string& dataset, std::size_t elements, ElementType type) const {
  const std::size_t bytes = elements * size_in_bytes(type);
  if (bytes >= kLargeBytes) require_memory(bytes, impl_->where(dataset));
}

void Hdf5File::close_dataset(const std::string& dataset) const {
  const Hdf5Lock lock;
  const auto known = impl_->datasets.find(dataset);
  if (known == impl_->datasets.end()) return;
  const bool closed = known->second.close();
  impl_->datasets.erase(known);
  if (!closed && impl_->writing) impl_->give_up(impl_->where(dataset));
}

DatasetInfo Hdf5File::checked_info(const std::string& dataset, ElementType type) const {
  DatasetInfo found = info(dataset);
  FLOODTIDE_REQUIRE(found.type == type, invalid_file, impl_->where(dataset), ": elements are ", name(found.type), ", expected ",
                    name(type));
  return found;
}

void Hdf5File::require_shape(const std::string& dataset, ElementType type, std::span<const std::int64_t> shape) const {
  const DatasetInfo found = checked_info(dataset, type);
  FLOODTIDE_REQUIRE(std::ranges::equal(found.shape, shape), invalid_file, impl_->where(dataset), ": has shape ",
                    Show{found.shape}, ", expected ", Show{shape});
}

void Hdf5File::checked_block(const std::string& dataset, ElementType type, std::span<const std::int64_t> start,
                             std::span<const std::int64_t> count, std::size_t elements) const {
  require_inside(checked_info(dataset, type).shape, start, count, impl_->where(dataset));
  FLOODTIDE_REQUIRE(elements == element_count(dataset, count), shape_mismatch, impl_->where(dataset), ": block of size ",
                    Show{count}, " for an array of ", elements, " elements");
}

void Hdf5File::require_block(const std::string& dataset, std::span<const std::int64_t> start,
                             std::span<const std::int64_t> count) const {
  impl_->try_first(dataset);
  const Hdf5Lock lock;
  const hid_t id = impl_->dataset(dataset);
  require_inside(shape_of_space(SpaceHandle(H5Dget_space(id)).id()), start, count, impl_->where(dataset));
  const auto try_block = [&] { check_hdf5_block(impl_->path, dataset, start, count); };
  require_chunks(id, start, count, impl_->checked[dataset], std::ref(try_block), impl_->where(dataset));
}

void Hdf5File::read_raw(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                        ElementType type, void* out) const {
  const Hdf5Lock lock;
  const hid_t id = impl_->dataset(dataset);
  if (!impl_->writing) require_block(dataset, start, count);
  const BlockSpaces spaces = block_spaces(id, start, count);
  if (H5Dread(id, native_type(type), spaces.memory.id(), spaces.file.id(), H5P_DEFAULT, out) < 0) {
    raise_unreadable(impl_->where(dataset));
  }
}

void Hdf5File::create_dataset(const std::string& dataset, ElementType type, std::span<const std::int64_t> shape,
                              const DatasetOptions& options) {
  const Hdf5Lock lock;
  impl_->require_writing();
  const std::string where = impl_->where(dataset);
  const PropertyHandle links = link_creation();
  const PropertyHandle properties = dataset_creation(type, shape, options, where);
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

void Hdf5File::write_chunk(const std::string& dataset, std::span<const std::int64_t> start, std::uint32_t skipped,
                           std::span<const std::byte> filtered) {
  const Hdf5Lock lock;
  impl_->require_writing();
  const std::vector<hsize_t> at = hdf5_sizes(start);
  if (H5Dwrite_chunk(impl_->dataset(dataset), H5P_DEFAULT, skipped, at.data(), filtered.size(), filtered.data()) < 0) {
    impl_->give_up(impl_->where(dataset));
  }
}

std::pair<std::uint32_t, std::vector<std::byte>> filtered_chunk(std::span<const float> values, const DatasetOptions& options) {
  const Hdf5Lock lock;
  const std::string name = "chunk";
  const auto require = [](bool done) { FLOODTIDE_REQUIRE(done, io, "HDF5: compressing a chunk failed: ", hdf5_cause()); };
  const PropertyHandle memory(H5Pcreate(H5P_FILE_ACCESS));
  require(H5Pset_fapl_core(memory.id(), std::size_t{1} << 16, false) >= 0);  // never on the disk
  const FileHandle file(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, memory.id()));
  require(file.valid());
  const SpaceHandle space = make_space(options.chunks);
  const PropertyHandle properties = dataset_creation(ElementType::float32, options.chunks, options, name);
  const DatasetHandle dataset(
      H5Dcreate2(file.id(), name.c_str(), H5T_NATIVE_FLOAT, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
  require(dataset.valid() && H5Dwrite(dataset.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  require(H5Dflush(dataset.id()) >= 0);
  const std::vector<hsize_t> first(options.chunks.size(), 0);
  hsize_t bytes = 0;
  require(H5Dget_chunk_storage_size(dataset.id(), first.data(), &bytes) >= 0);
  std::pair<std::uint32_t, std::vector<std::byte>> chunk(0, bytes);
  require(H5Dread_chunk(dataset.id(), H5P_DEFAULT, first.data(), &chunk.first, chunk.second.data()) >= 0);
  return chunk;
}

void Hdf5File::create_group(const std::string& group) {
  const Hdf5Lock lock;
  impl_->require_writing();
  const PropertyHandle links = link_creation();
  const PropertyHandle properties = object_creation(H5P_GROUP_CREATE);
  const GroupHandle handle(H5Gcreate2(impl_->file.id(), group.c_str(), links.id(), properties.id(), H5P_DEFAULT));
  if (!handle.valid()) impl_->give_up(impl_->where(group));
}

}  // namespace floodtide::data
