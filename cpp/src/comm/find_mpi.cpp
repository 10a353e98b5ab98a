// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/plugin_file.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/mpi.hpp"

namespace floodtide::comm {
namespace {

using LibraryVersion = int (*)(char* out_text, int* out_length);  // MPI_Get_library_version, in both families
constexpr const char* kLibraryVersion = "MPI_Get_library_version";

/// Return the function of a library that dlopen() has opened, or null. `handle` may be RTLD_DEFAULT: this process.
LibraryVersion version_of(void* handle) { return reinterpret_cast<LibraryVersion>(::dlsym(handle, kLibraryVersion)); }

MpiOptions options_of(LibraryVersion version, std::string library) {
  std::array<char, 8192> text{};  // MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH and 256 in Open MPI
  int length = 0;
  version(text.data(), &length);
  const bool openmpi = std::string_view(text.data()).find("Open MPI") != std::string_view::npos;
  return {.plugin = plugin_file(openmpi ? "_mpi_openmpi.so" : "_mpi_mpich.so"), .libraries = {std::move(library)}};
}

}  // namespace

MpiOptions find_mpi() {
  std::vector<std::string> candidates = {"libmpi.so.12", "libmpich.so.12", "libmpi.so.40"};
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) candidates = {"libmpi.so.40"};  // mpiexec of Open MPI sets it
  if (const char* const chosen = std::getenv("FLOODTIDE_LIBMPI"); chosen != nullptr) {
    candidates = {chosen};
  } else if (const LibraryVersion version = version_of(RTLD_DEFAULT); version != nullptr) {
    Dl_info info{};
    ::dladdr(reinterpret_cast<const void*>(version), &info);
    return options_of(version, info.dli_fname);
  }
  std::string reasons;
  for (const std::string& candidate : candidates) {
    void* const library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    const LibraryVersion version = library != nullptr ? version_of(library) : nullptr;
    if (version != nullptr) return options_of(version, candidate);
    const char* const reason = ::dlerror();
    reasons += str_cat(reasons.empty() ? "" : "; ", reason != nullptr ? reason : candidate);
  }
  raise(ErrorCode::unsupported, "mpi: no MPI library could be loaded: ", reasons, "; set FLOODTIDE_LIBMPI to its path");
}

}  // namespace floodtide::comm
