// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/hdf5.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>

#include "data/hdf5_check.hpp"
#include "data/hdf5_impl.hpp"

namespace floodtide::data {
namespace {

constexpr std::int64_t kMostLinks = 10'000;  // that are looked at
constexpr std::int64_t kDeepestLink = 100;   // groups within groups
constexpr std::size_t kLongestList = 500;    // letters of a list of names in a message

struct FoundNames {
  hid_t links;  ///< how they are followed
  std::vector<std::string> found{};
  std::int64_t links_seen = 0;
  bool endless = false;
};

herr_t add_name(hid_t, const char* link, const H5L_info_t*, void* names) {
  static_cast<FoundNames*>(names)->found.emplace_back(link);
  return 0;
}

herr_t add_dataset(hid_t group, const char* link, const H5L_info_t*, void* names) {
  auto& known = *static_cast<FoundNames*>(names);
  // In a damaged file a group may contain itself, and the library then comes to no end.
  const std::string_view path(link);
  known.endless = ++known.links_seen > kMostLinks || std::ranges::count(path, '/') > kDeepestLink;
  if (known.endless) return -1;
  const ObjectHandle object(H5Oopen(group, link, known.links));
  if (object.valid() && H5Iget_type(object.id()) == H5I_DATASET) known.found.emplace_back(link);
  return 0;
}

/// Full names of all datasets, as far as they can be found.
herr_t find_datasets(hid_t file, FoundNames& names) { return H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, &add_dataset, &names); }

/// The first few names, for messages.
std::string shown(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (text.size() > kLongestList) return text + ", ...";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

alignas(std::recursive_mutex) constinit std::array<std::byte, sizeof(std::recursive_mutex)> mutex_memory{};

}  // namespace

std::recursive_mutex& Hdf5Lock::mutex() {
  static std::recursive_mutex* const instance = [] {
    // A recursive mutex belongs to a thread, and the thread of a child has another number: the child gets a new mutex.
    ::pthread_atfork([] { mutex().lock(); }, [] { mutex().unlock(); }, [] { new (&mutex_memory) std::recursive_mutex; });
    return new (&mutex_memory) std::recursive_mutex;
  }();
  return *instance;
}

std::vector<hsize_t> hdf5_sizes(std::span<const std::int64_t> values) { return {values.begin(), values.end()}; }

std::vector<std::int64_t> shape_of_space(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> sizes(static_cast<std::size_t>(std::max(rank, 0)));
  H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  return {sizes.begin(), sizes.end()};
}

SpaceHandle make_space(std::span<const std::int64_t> shape) {
  if (shape.empty()) return SpaceHandle(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> sizes = hdf5_sizes(shape);
  return SpaceHandle(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
}

bool make_attribute(hid_t file, const std::string& object, const std::string& name, hid_t type, const SpaceHandle& space,
                    const void* value) {
  const AttributeHandle attribute(
      H5Acreate_by_name(file, object.c_str(), name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  return attribute.valid() && H5Awrite(attribute.id(), type, value) >= 0;
}

void raise_unreadable(const std::string& what) {
  const std::string cause = hdf5_cause();
  if (cause.find("checksum") == std::string::npos) raise(ErrorCode::invalid_file, what, ": cannot be read: ", cause);
  raise(ErrorCode::invalid_file, what, ": is damaged, its checksum is wrong; use another copy of the file");
}

bool Hdf5File::Impl::exists(const std::string& object) const {
  const std::string path_in_file = object.starts_with('/') ? object.substr(1) : object;
  if (path_in_file.empty()) return true;
  // H5Oexists_by_name looks only at the last part of a path and fails if an earlier one is missing.
  for (std::size_t slash = path_in_file.find('/');; slash = path_in_file.find('/', slash + 1)) {
    std::string part = path_in_file.substr(0, slash);
    if (!found_objects.contains(part)) {
      const htri_t link = H5Lexists(file.id(), part.c_str(), links.id());
      const htri_t found = link > 0 ? H5Oexists_by_name(file.id(), part.c_str(), links.id()) : link;
      FLOODTIDE_REQUIRE(refused_file.empty(), invalid_file, where(object), ": is a link into another file, ",
                        std::exchange(refused_file, {}), "; set FLOODTIDE_ALLOW_EXTERNAL=1 if you trust it");
      if (found < 0) {  // something on the way is no group, or it is damaged
        const std::string cause = hdf5_cause();
        FLOODTIDE_REQUIRE(cause.find("checksum") == std::string::npos, invalid_file, where(part),
                          ": is damaged, its checksum is wrong; use another copy of the file");
      }
      if (found <= 0) return false;
      if (!writing) found_objects.insert(std::move(part));
    }
    if (slash == std::string::npos) return true;
  }
}

void Hdf5File::Impl::require_object(const std::string& object) const {
  FLOODTIDE_REQUIRE(exists(object), invalid_file, path, ": has no group or dataset '", object, "'");
}

void Hdf5File::Impl::try_first(const std::string& object) const {
  if (!all_tried) check_hdf5(path, object);
}

hid_t Hdf5File::Impl::dataset(const std::string& name) const {
  const auto known = datasets.find(name);
  if (known != datasets.end()) return known->second.id();
  if (!exists(name)) {
    FoundNames names{.links = links.id()};
    find_datasets(file.id(), names);
    refused_file.clear();
    raise(ErrorCode::invalid_file, path, ": has no dataset '", name, "'; its datasets are: ", shown(names.found));
  }
  DatasetHandle handle(H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT));
  if (!handle.valid()) raise_unreadable(where(name));
  if (!writing) require_readable(handle.id(), where(name));
  return datasets.emplace(name, std::move(handle)).first->second.id();
}

void Hdf5File::Impl::require_writing() const {
  FLOODTIDE_REQUIRE(writing, invalid_argument, path, ": is not open for writing");
  FLOODTIDE_REQUIRE(process.is_here(), io, path,
                    ": cannot be written: this process is a child (fork) of the one that writes it");
}

void Hdf5File::Impl::release() noexcept {
  for (auto& [name, handle] : datasets) handle.release();
  datasets.clear();
  file.release();
}

void Hdf5File::Impl::give_up(const std::string& what) {
  const std::string cause = hdf5_cause();
  release();
  writing = false;
  staged.reset();
  raise(ErrorCode::io, what, ": cannot be written: ", cause);
}

Hdf5File::Hdf5File(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Hdf5File::~Hdf5File() {
  if (!impl_) return;
  const Hdf5Lock lock;
  impl_->staged.reset();
  if (impl_->writing && !impl_->process.is_here()) {
    impl_->release();  // closing would write into the file of the parent
  } else {
    impl_->datasets.clear();
    impl_->file.close();
  }
}

Hdf5File Hdf5File::open(const std::string& path, std::size_t chunk_cache_bytes) {
  const Superblock superblock = require_hdf5_file(path);
  const bool all_tried = check_hdf5(path);
  const Hdf5Lock lock;
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->superblock = superblock;
  impl->all_tried = all_tried;
  impl->links = link_access(impl->refused_file);
  const PropertyHandle access = file_access(chunk_cache_bytes);
  impl->file = FileHandle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()));
  if (!impl->file.valid()) {
    const std::string cause = hdf5_cause();
    FLOODTIDE_REQUIRE(cause != std::strerror(EAGAIN), invalid_file, path,
                      ": is locked: another program has it open for writing (", cause,
                      "). Close it there or read a copy; if no program writes to it, set HDF5_USE_FILE_LOCKING=FALSE");
    raise(ErrorCode::invalid_file, path, ": cannot be opened as an HDF5 file: ", cause);
  }
  return Hdf5File(std::move(impl));
}

const std::string& Hdf5File::path() const noexcept { return impl_->path; }

bool Hdf5File::exists(const std::string& object) const {
  impl_->try_first(object);
  const Hdf5Lock lock;
  return impl_->exists(object);
}

std::vector<std::string> Hdf5File::list(const std::string& group) const {
  impl_->try_first(group);
  const Hdf5Lock lock;
  impl_->require_object(group);
  const GroupHandle handle(H5Gopen2(impl_->file.id(), group.c_str(), H5P_DEFAULT));
  if (!handle.valid()) raise(ErrorCode::invalid_file, impl_->where(group), ": is not a group");
  FoundNames names{.links = impl_->links.id()};
  if (H5Literate(handle.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, &add_name, &names) < 0) {
    raise_unreadable(impl_->where(group));
  }
  std::sort(names.found.begin(), names.found.end());
  return std::move(names.found);
}

std::vector<std::string> Hdf5File::datasets() const {
  const Hdf5Lock lock;
  FoundNames names{.links = impl_->links.id()};
  const herr_t status = find_datasets(impl_->file.id(), names);
  FLOODTIDE_REQUIRE(!names.endless, invalid_file, impl_->path, ": has more than ", kMostLinks, " groups and datasets, or ",
                    kDeepestLink, " levels: it is damaged, or a group contains itself");
  if (status < 0) raise_unreadable(impl_->path);
  impl_->refused_file.clear();
  std::sort(names.found.begin(), names.found.end());
  return std::move(names.found);
}

bool Hdf5File::has_checksum(const std::string& dataset) const {
  impl_->try_first(dataset);
  const Hdf5Lock lock;
  return data::has_checksum(impl_->dataset(dataset), impl_->superblock.version >= 2);
}

}  // namespace floodtide::data
