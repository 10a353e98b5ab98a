// SPDX-License-Identifier: Apache-2.0
// Ranks as MPI processes. The core is built without mpi.h: a plug-in per ABI family (MPICH with Intel and Cray; Open MPI) is
// loaded when ranks are wanted, beside the MPI library that the process uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

struct MpiOptions {
  std::string plugin;                  ///< path of _mpi_mpich.so or _mpi_openmpi.so
  std::vector<std::string> libraries;  ///< names or paths of the MPI library; the first that can be loaded is used
  /// Longer messages are cut: MPI counts are int. Tests make it small.
  std::size_t max_message_bytes = std::size_t{1} << 30U;
};

/// An MPI library in this process. Loading it does not start MPI.
class MpiLibrary {
 public:
  /// Throws Error(unsupported) if no library can be loaded, or plug-in and library are of different families or versions.
  explicit MpiLibrary(const MpiOptions& options);
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;
  MpiLibrary(MpiLibrary&&) = delete;
  MpiLibrary& operator=(MpiLibrary&&) = delete;
  ~MpiLibrary();  ///< does not end MPI: see finish

  [[nodiscard]] std::string family() const;   ///< "mpich" or "openmpi"
  [[nodiscard]] std::string library() const;  ///< which of the options' libraries was loaded
  [[nodiscard]] std::string version() const;  ///< as MPI_Get_library_version gives it, to be compared with another user's
  [[nodiscard]] int handle_bytes() const;     ///< size of the MPI_Comm that adopt expects

  /// Starts MPI unless somebody has, on the calling thread, and returns the thread level: "multiple" or "serialized".
  /// Throws Error(unsupported) if the level is lower and Error(communication) if MPI does not start.
  std::string start();
  /// Collective: a duplicate of the world. Starts MPI.
  [[nodiscard]] std::unique_ptr<Communicator> world();
  /// Collective over the communicator of this handle, which somebody else opened with the same library: a duplicate of it.
  [[nodiscard]] std::unique_ptr<Communicator> adopt(std::uint64_t handle);
  /// Collective if start() started MPI here, which it then ends; otherwise nothing. To be called before the process ends.
  void finish();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace floodtide::comm
