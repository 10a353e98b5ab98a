// SPDX-License-Identifier: Apache-2.0
// Transport `mpi`: ranks are MPI processes. The core is built without mpi.h. There is one plug-in for each ABI family: MPICH
// (also for Intel MPI and Cray MPICH) and Open MPI. The plug-in is loaded at run time, after the MPI library of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

struct MpiOptions {
  std::string plugin;                  ///< path of _mpi_mpich.so or _mpi_openmpi.so
  std::vector<std::string> libraries;  ///< names or paths of the MPI library; the first that can be loaded is used
  /// Longer messages are split, because MPI counts are `int`. Tests use small values.
  std::size_t max_message_bytes = std::size_t{1} << 30U;
};

/// Return the MPI library of this process, and its plug-in.
///
/// The library is the one that the environment variable FLOODTIDE_LIBMPI names. Without the variable, it is the library that
/// the program is linked with, else MPICH's (libmpi.so.12) or Open MPI's (libmpi.so.40), the library of the launcher first.
/// Throws Error(unsupported) if none can be loaded.
[[nodiscard]] MpiOptions find_mpi();

/// An MPI library in this process. Loading it does not start MPI.
class MpiLibrary : Immovable {
 public:
  /// Loads library and plug-in. Throws Error(unsupported) if no library or plug-in can be loaded, if they are of different
  /// families, or if the plug-in has another interface version than this build.
  explicit MpiLibrary(const MpiOptions& options);
  ~MpiLibrary();  ///< does not end MPI; see finish()

  [[nodiscard]] std::string family() const;   ///< "mpich" or "openmpi"
  [[nodiscard]] std::string library() const;  ///< the entry of MpiOptions::libraries that was loaded
  [[nodiscard]] std::string version() const;  ///< text of MPI_Get_library_version, to compare with other users of MPI
  [[nodiscard]] int handle_bytes() const;     ///< size of an MPI_Comm in bytes, for adopt()

  /// Starts MPI on the calling thread, unless it runs already. Returns the thread level: "multiple" or "serialized".
  /// Throws Error(unsupported) if MPI does not start, if the thread level is lower, or if it is below "multiple" and another
  /// library, such as mpi4py, has started MPI.
  std::string start();
  /// Return a duplicate of MPI_COMM_WORLD. Starts MPI if needed. Collective.
  [[nodiscard]] std::unique_ptr<Communicator> world();
  /// Return a duplicate of the communicator with this handle, which other code opened with the same MPI library. Starts MPI if
  /// needed. Collective over this communicator.
  [[nodiscard]] std::unique_ptr<Communicator> adopt(std::uint64_t handle);
  /// Ends MPI if start() started it in this process; otherwise does nothing. Collective. Call this before the process ends.
  void finish();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace floodtide::comm
