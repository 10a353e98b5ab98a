// SPDX-License-Identifier: Apache-2.0
// The writing side of Hdf5File: new files, results that join the datasets of a file, and the rules for what may be replaced.
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "data/hdf5_impl.hpp"
#include "data/hdf5_trust.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {
namespace {

constexpr const char* kWrittenBy = "written_by";

enum class ResultPlace {
  fresh,  ///< there is no file, or nothing but the result in it: a new file takes the name
  shared  ///< other objects are in the file: the result joins them
};

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

/// The command that wrote an object, as its attribute says; empty if it does not.
std::string writer_of(const Hdf5File& file, const std::string& object) {
  if (!file.has_attribute(object, kWrittenBy)) return {};
  try {
    return file.read_text_attribute(object, kWrittenBy);
  } catch (const Error&) {
    return {};  // an attribute of that name which is no text: not ours
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

/// Attribute `format` of a file, empty if there is none that is a text.
std::string format_of(const Hdf5File& file) {
  try {
    return file.has_attribute("/", "format") ? file.read_text_attribute("/", "format") : std::string();
  } catch (const Error&) {
    return {};
  }
}

void require_format(const Hdf5File& file, const std::string& path, const Hdf5Result& result, const std::string& other) {
  const std::string found = format_of(file);
  FLOODTIDE_REQUIRE(found == result.format, invalid_argument, path, ": exists and is not a file of format '", result.format,
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
    FLOODTIDE_REQUIRE(own || writer_of(file, dataset) != result.command, invalid_argument, path, ": holds '", dataset, "' of ",
                      result.command, ", which '", *taken, "' describes: choose another file for '", result.described, "'");
  }
}

void require_own_objects(const Hdf5File& file, hid_t id, const std::string& path, const Hdf5Result& result) {
  for (const std::string& object : result.objects) {
    for (std::size_t slash = object.find('/'); slash != std::string::npos; slash = object.find('/', slash + 1)) {
      const std::string group = object.substr(0, slash);
      FLOODTIDE_REQUIRE(!file.exists(group) || is_group(id, group), invalid_argument, path, ":", object, ": '", group,
                        "' is a dataset there, expected a group or a free name");
    }
    FLOODTIDE_REQUIRE(!file.exists(object) || writer_of(file, object) == result.command, invalid_argument, path, ":", object,
                      ": exists, and no attribute ", kWrittenBy, " says that ", result.command,
                      " wrote it: it is not replaced; choose another name, or remove it first");
  }
}

/// Where a result goes. Throws if it would replace anything but an older result of the same command.
/// @param id  the open file, as HDF5 knows it
ResultPlace place_of(const Hdf5File& file, hid_t id, const std::string& path, const Hdf5Result& result) {
  const std::string other = other_object(id, result);
  if (!result.format.empty()) {
    require_format(file, path, result, other);
    return ResultPlace::fresh;
  }
  const std::string format = format_of(file);
  FLOODTIDE_REQUIRE(!format.starts_with("floodtide "), invalid_argument, path, ": is a file of format '", format,
                    "', which has room for nothing else: choose another file");
  require_own_objects(file, id, path, result);
  require_no_other_result(file, path, result);
  H5O_info_t root;
  const bool described = H5Oget_info(id, &root) >= 0 && root.num_attrs > 0;
  return other.empty() && !described ? ResultPlace::fresh : ResultPlace::shared;
}

bool holds_nothing(const std::string& target) {
  std::error_code error;
  const auto size = std::filesystem::file_size(target, error);
  return error || size == 0;
}

Hdf5Result normalised(Hdf5Result result) {
  const auto strip = [](std::string& object) { object.erase(0, object.find_first_not_of('/')); };
  std::ranges::for_each(result.objects, strip);
  strip(result.described);
  return result;
}

}  // namespace

Hdf5File Hdf5File::start(const std::string& path, const Hdf5Result& result, bool joins, std::size_t chunk_cache_bytes) {
  const Hdf5Lock lock;
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->result = result;
  impl->staged.emplace(path);
  if (joins) impl->staged->copy_target();
  const PropertyHandle access = file_access(chunk_cache_bytes);
  const PropertyHandle creation = file_creation();
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

Hdf5File Hdf5File::create(const std::string& path, std::size_t chunk_cache_bytes) {
  return start(path, {}, false, chunk_cache_bytes);
}

bool Hdf5File::joins_others(const std::string& path, const Hdf5Result& result) {
  const std::string target = output_target(path);
  if (holds_nothing(target)) return false;
  std::optional<Hdf5File> file;
  try {
    file = open(target);
  } catch (const Error& error) {
    raise(ErrorCode::invalid_argument, path, ": exists and is not replaced, because it cannot be read as an HDF5 file (",
          error.what(), "); choose another name, or remove it first");
  }
  const Hdf5Lock lock;
  return place_of(*file, file->impl_->file.id(), path, result) == ResultPlace::shared;
}

void Hdf5File::check_output(const std::string& path, const Hdf5Result& result) {
  static_cast<void>(joins_others(path, normalised(result)));
}

Hdf5File Hdf5File::create(const std::string& path, const Hdf5Result& wanted, std::size_t chunk_cache_bytes) {
  const Hdf5Result result = normalised(wanted);
  return start(path, result, joins_others(path, result), chunk_cache_bytes);
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
