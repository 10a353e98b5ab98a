// SPDX-License-Identifier: Apache-2.0
// Declarations that the files of a plug-in share. Only this folder includes mpi.h.
#pragma once

#define MPICH_SKIP_MPICXX 1
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <mutex>

#include "comm/mpi/table.hpp"

struct FloodtideMpiComm {
  MPI_Comm comm = MPI_COMM_NULL;
};

namespace floodtide::comm::mpi {

/// Mutex that is held during every MPI call except abort. Thread level MPI_THREAD_SERIALIZED is therefore enough, unless others
/// call MPI as well.
inline std::mutex& call_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// True if MPI is ending in this process. Other threads must not call MPI any more. Guarded by call_mutex().
inline bool& ending() {
  static bool ends = false;
  return ends;
}

/// Return 0 if `status` is MPI_SUCCESS. Otherwise write the name of the call and the library's text to out_message, and return
/// -1.
inline int checked(int status, const char* call, char* out_message) {
  if (status == MPI_SUCCESS) return 0;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(status, text, &length);
  for (char* c = text; *c != '\0'; ++c) {
    if (*c == '\n') *c = ' ';
  }
  std::snprintf(out_message, kFloodtideMpiMessageBytes, "%s: %s", call, text);
  return -1;
}

/// Return 0 while MPI runs. Otherwise write a message and return -1: threads of objects that outlive MPI must not call it. The
/// caller holds call_mutex().
inline int require_running(char* out_message) {
  int over = 0;
  if (!ending() && MPI_Finalized(&over) == MPI_SUCCESS && over == 0) return 0;
  std::snprintf(out_message, kFloodtideMpiMessageBytes, "MPI has ended in this process");
  return -1;
}

int start(int* out_started_here, const char** out_thread_level, char* out_message);
int finalized(int* out_finalized, char* out_message);
int finish(char* out_message);
int world(std::uint64_t* out_handle, char* out_message);

}  // namespace floodtide::comm::mpi

/// Returns -1 from the function, with a message, if the MPI call fails.
#define FLOODTIDE_MPI_TRY(call)                                                    \
  do {                                                                             \
    if (::floodtide::comm::mpi::checked(call, #call, out_message) != 0) return -1; \
  } while (false)
