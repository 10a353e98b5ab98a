// SPDX-License-Identifier: Apache-2.0
// The writing side of Hdf5File: new files, results that join the datasets of a file, and the rules for what may be replaced.
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "data/hdf5_impl.hpp"

namespace floodtide::data {
namespace {

constexpr const char* kWrittenBy = "written_by";

bool is_or_lies_in(std::string_view name, std::string_view object) {
  return name == object || (name.starts_with(object) && name.substr(object.size()).starts_with('/'));
}

struct Links {
  const Hdf5Result* result;
  std::string other;  ///< one that is not of the result; empty if there is none
};

herr_t find_other(hid_t, const char* link, const H5L_info_t* info, void* data) {
  auto* links = static_cast<Links*>(data);
  const std::string_view name = link;
  const bool own = std::ranges::any_of(links->result->objects, [&](const std::string& object) {
    return is_or_lies_in(name, object) || (info->type == H5L_TYPE_HARD && is_or_lies_in(object, name));
  });
  if (own) return 0;
  links->other = name;
  return 1;
}

/// A link to something else than the result's objects and the groups that they lie in.
std::string other_object(hid_t file, const Hdf5Result& result) {
  Links links{.result = &result, .other = {}};
  H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, &find_other, &links);
  return links.other;
}

bool is_group(hid_t file, const std::string& name) {
  const ObjectHandle object(H5Oopen(file, name.c_str(), H5P_DEFAULT));
  return object.valid() && H5Iget_type(object.id()) == H5I_GROUP;
}

/// An attribute of an object; empty if there is none that is a text: an attribute of that name which is no text is not ours.
std::string text_of(const Hdf5File& file, const std::string& object, const std::string& attribute) {
  if (!file.has_attribute(object, attribute)) return {};
  try {
    return file.read_text_attribute(object, attribute);
  } catch (const Error&) {
    return {};
  }
}

/// Marks an object as a command's. The text is of fixed length: HDF5 1.10 never frees the space of texts of variable length, so
/// each replacement of the object would make the file larger.
bool mark(hid_t file, const std::string& object, const std::string& command) {
  const TypeHandle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.id(), command.size());
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  return make_attribute(file, object, kWrittenBy, type.id(), make_space({}), command.data());
}

void require_format(const Hdf5File& file, const std::string& path, const Hdf5Result& result, const std::string& other) {
  FLOODTIDE_REQUIRE(text_of(file, "/", "format") == result.format, invalid_argument, path,
                    ": exists and is not a file of format '", result.format,
                    "': it is not replaced; choose another name, or remove it first");
  FLOODTIDE_REQUIRE(other.empty(), invalid_argument, path, ": exists and holds '", other,
                    "', which would be lost: choose another name, or remove it first");
}

/// Where a file has no object `described`, the objects that would describe it describe another one.
void require_no_other_result(const Hdf5File& file, const std::string& path, const Hdf5Result& result) {
  if (result.described.empty() || file.exists(result.described)) return;
  const auto taken = std::ranges::find_if(result.objects, [&](const std::string& object) { return file.exists(object); });
  if (taken == result.objects.end()) return;
  for (const std::string& dataset : file.datasets()) {
    const bool own = std::ranges::any_of(result.objects, [&](const auto& object) { return is_or_lies_in(dataset, object); });
    FLOODTIDE_REQUIRE(own || text_of(file, dataset, kWrittenBy) != result.command, invalid_argument, path, ": holds '", dataset,
                      "' of ", result.command, ", which '", *taken, "' describes: choose another file for '", result.described,
                      "'");
  }
}

void require_own_objects(const Hdf5File& file, hid_t id, const std::string& path, const Hdf5Result& result) {
  for (const std::string& object : result.objects) {
    for (std::size_t slash = object.find('/'); slash != std::string::npos; slash = object.find('/', slash + 1)) {
      const std::string group = object.substr(0, slash);
      FLOODTIDE_REQUIRE(!file.exists(group) || is_group(id, group), invalid_argument, path, ":", object, ": '", group,
                        "' is a dataset there, expected a group or a free name");
    }
    FLOODTIDE_REQUIRE(!file.exists(object) || text_of(file, object, kWrittenBy) == result.command, invalid_argument, path, ":",
                      object, ": exists, and no attribute ", kWrittenBy, " says that ", result.command,
                      " wrote it: it is not replaced; choose another name, or remove it first");
  }
}

/// Whether a result joins other objects of the file; else a new file takes its name. Throws if it would replace anything
/// but an older result of the same command.
/// @param id  the open file, as HDF5 knows it
bool shares_file(const Hdf5File& file, hid_t id, const std::string& path, const Hdf5Result& result) {
  const std::string other = other_object(id, result);
  if (!result.format.empty()) {
    require_format(file, path, result, other);
    return false;
  }
  const std::string format = text_of(file, "/", "format");
  FLOODTIDE_REQUIRE(!format.starts_with("floodtide "), invalid_argument, path, ": is a file of format '", format,
                    "', which has room for nothing else: choose another file");
  require_own_objects(file, id, path, result);
  require_no_other_result(file, path, result);
  H5O_info_t root;
  const bool described = H5Oget_info(id, &root) >= 0 && root.num_attrs > 0;
  return !other.empty() || described;
}

Hdf5Result normalised(Hdf5Result result) {
  const auto strip = [](std::string& object) { object.erase(0, object.find_first_not_of('/')); };
  std::ranges::for_each(result.objects, strip);
  strip(result.described);
  return result;
}

}  // namespace

Hdf5File Hdf5File::start(const std::string& path, const Hdf5Result& result, bool joins) {
  const Hdf5Lock lock;
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->result = result;
  impl->staged.emplace(path);
  if (joins) impl->staged->copy_target();
  const PropertyHandle access = file_access(kChunkCacheBytes);
  const PropertyHandle creation = object_creation(H5P_FILE_CREATE);
  impl->links = link_access(impl->refused_file);
  // By the descriptor of the file that was made with O_EXCL: HDF5 opens by name, and a link that somebody puts in the place of
  // the temporary name would be followed.
  const std::string name = impl->staged->open_name();
  impl->file = FileHandle(joins ? H5Fopen(name.c_str(), H5F_ACC_RDWR, access.id())
                                : H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()));
  FLOODTIDE_REQUIRE(impl->file.valid(), io, path,
                    joins ? ": nothing can be added to it: " : ": cannot be written: ", hdf5_cause());
  impl->writing = true;
  for (const std::string& object : result.objects) {
    if (joins && impl->exists(object) && H5Ldelete(impl->file.id(), object.c_str(), H5P_DEFAULT) < 0) impl->give_up(path);
  }
  return Hdf5File(std::move(impl));
}

Hdf5File Hdf5File::create(const std::string& path) { return start(path, {}, false); }

bool Hdf5File::joins_others(const std::string& path, const Hdf5Result& result) {
  const std::string target = output_target(path);
  std::error_code error;
  if (std::filesystem::file_size(target, error) == 0 || error) return false;
  std::optional<Hdf5File> file;
  try {
    file = open(target);
  } catch (const Error& unreadable) {
    raise(ErrorCode::invalid_argument, path, ": exists and is not replaced, because it cannot be read as an HDF5 file (",
          unreadable.what(), "); choose another name, or remove it first");
  }
  const Hdf5Lock lock;
  return shares_file(*file, file->impl_->file.id(), path, result);
}

void Hdf5File::check_output(const std::string& path, const Hdf5Result& result) {
  static_cast<void>(joins_others(path, normalised(result)));
}

Hdf5File Hdf5File::create(const std::string& path, const Hdf5Result& wanted) {
  const Hdf5Result result = normalised(wanted);
  return start(path, result, joins_others(path, result));
}

void Hdf5File::commit() {
  const Hdf5Lock lock;
  impl_->require_writing();
  if (impl_->result.format.empty()) {
    for (const std::string& object : impl_->result.objects) {
      if (impl_->exists(object) && !mark(impl_->file.id(), object, impl_->result.command)) impl_->give_up(impl_->where(object));
    }
  }
  bool written = true;
  for (auto& [name, handle] : impl_->datasets) written = written && handle.close();
  written = written && H5Fflush(impl_->file.id(), H5F_SCOPE_GLOBAL) >= 0;
  written = written && impl_->file.close();
  if (!written) impl_->give_up(impl_->path);
  impl_->datasets.clear();
  impl_->writing = false;
  StagedFile staged = std::move(*impl_->staged);
  impl_->staged.reset();
  staged.commit();
}

}  // namespace floodtide::data
