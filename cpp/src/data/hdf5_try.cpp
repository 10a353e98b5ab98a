// SPDX-License-Identifier: Apache-2.0
// What the program of hdf5_check.hpp does with a file: use all that a reader may use, and ignore the library's errors.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "data/hdf5_impl.hpp"

namespace floodtide::data {
namespace {

constexpr std::size_t kMostTried = 1000;  // objects; a file with more is tried object by object

struct Names {
  std::vector<std::string> found{};
  bool too_many = false;
};

herr_t add_link(hid_t, const char* link, const H5L_info_t*, void* names) {
  auto& known = *static_cast<Names*>(names);
  known.too_many = known.found.size() >= kMostTried;
  if (known.too_many) return 1;
  known.found.emplace_back(link);
  return 0;
}

herr_t add_attribute(hid_t, const char* name, const H5A_info_t*, void* names) {
  static_cast<Names*>(names)->found.emplace_back(name);
  return 0;
}

template <class Work>
void try_quietly(const Work& work) {
  try {
    work();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the reader of the file meets the error
  }
}

/// Visits all nodes of the index of chunks, unless they have checksums: those are checked when they are read. Returns false if
/// chunks without filters do not have the size that the library assumes (it does not compare them).
bool try_index(hid_t dataset, const DatasetInfo& info) {
  H5D_chunk_index_t kind{};
  hsize_t chunks = 0;
  if (H5Dget_chunk_index_type(dataset, &kind) < 0 || kind != H5D_CHUNK_IDX_BTREE) return true;
  if (H5Dget_num_chunks(dataset, SpaceHandle(H5Dget_space(dataset)).id(), &chunks) < 0) return true;
  if (H5Pget_nfilters(PropertyHandle(H5Dget_create_plist(dataset)).id()) != 0) return true;
  hsize_t chunk_bytes = size_in_bytes(info.type);
  for (const std::int64_t extent : info.chunks) chunk_bytes *= static_cast<hsize_t>(extent);
  return H5Dget_storage_size(dataset) == chunks * chunk_bytes;
}

}  // namespace

Hdf5Tried Hdf5File::try_metadata(const std::string& object) const {
  const Hdf5Lock lock;
  Names names;
  const bool visited = H5Lvisit(impl_->file.id(), H5_INDEX_NAME, H5_ITER_INC, &add_link, &names) >= 0;
  try_quietly([&] { static_cast<void>(datasets()); });
  const bool whole = visited && !names.too_many;
  if (!whole) names.found = {object};
  names.found.emplace_back("/");
  bool sound = true;
  for (const std::string& name : names.found) sound = try_object(name) && sound;
  return !sound ? Hdf5Tried::damaged : whole ? Hdf5Tried::whole : Hdf5Tried::part;
}

bool Hdf5File::try_object(const std::string& name) const {
  const ObjectHandle object(H5Oopen(impl_->file.id(), name.c_str(), impl_->links.id()));
  if (!object.valid()) return true;  // a link to nothing
  bool sound = true;
  try_quietly([&] { static_cast<void>(list(name)); });
  try_quietly([&] {
    const DatasetInfo found = info(name);
    static_cast<void>(has_checksum(name));
    const hid_t id = impl_->dataset(name);
    if (!found.chunks.empty()) {
      sound = try_index(id, found);
      return;
    }
    // The values of a virtual dataset are in chunks of other objects.
    const bool is_virtual = H5Pget_layout(PropertyHandle(H5Dget_create_plist(id)).id()) == H5D_VIRTUAL;
    if (is_virtual || std::ranges::count(found.shape, 0) > 0) return;
    const std::vector<std::int64_t> first(found.shape.size(), 0), one(found.shape.size(), 1);
    std::array<std::byte, 8> value{};
    read_raw(name, first, one, found.type, value.data());
  });
  Names attributes;
  H5Aiterate2(object.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, &add_attribute, &attributes);
  for (const std::string& attribute : attributes.found) {
    try_quietly([&] { static_cast<void>(read_attribute<std::int64_t>(name, attribute)); });
    try_quietly([&] { static_cast<void>(read_attribute<double>(name, attribute)); });
    try_quietly([&] { static_cast<void>(read_texts(name, attribute)); });
  }
  return sound;
}

void Hdf5File::try_block(const std::string& dataset, std::span<const std::int64_t> start,
                         std::span<const std::int64_t> count) const {
  const DatasetInfo found = info(dataset);
  std::vector<std::byte> values(element_count(dataset, count) * size_in_bytes(found.type));
  read_raw(dataset, start, count, found.type, values.data());
}

}  // namespace floodtide::data
