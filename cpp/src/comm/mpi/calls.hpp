// SPDX-License-Identifier: Apache-2.0
// What the files of a plug-in share. This folder alone sees mpi.h.
#pragma once

#define MPICH_SKIP_MPICXX 1
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <memory>
#include <mutex>

#include "comm/mpi/table.hpp"

struct FloodtideMpiComm {
  MPI_Comm comm = MPI_COMM_NULL;
};

namespace floodtide::comm::mpi {

/// Held during every MPI call but abort: with it, a library that gives MPI_THREAD_SERIALIZED is enough.
inline std::mutex& call_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Whether settle() has made a communicator without a lost rank. From then on none is freed: the library would give its number
/// to a new one, which would take the messages that nobody has received for its own (measured: lost messages, aborts).
inline bool& rank_was_lost() {
  static bool lost = false;
  return lost;
}

/// Whether MPI ends in this process: other threads must not call it any more. Guarded by call_mutex().
inline bool& ending() {
  static bool ends = false;
  return ends;
}

/// 0, or -1 after the library's text for `status` went to out_message behind the name of the call.
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

/// 0, or -1 with a message once MPI has ended: the threads of objects that outlive it must not call it any more. To be called
/// with the mutex held.
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
/// Makes a new communicator return errors, and gives it to the core.
int describe(std::unique_ptr<FloodtideMpiComm> comm, FloodtideMpiComm** out_comm, int* out_rank, int* out_size,
             char* out_message);
int survives(int* out_survives, char* out_message);
int settle(FloodtideMpiComm* comm, int fine, FloodtideMpiComm** out_comm, int* out_rank, int* out_size, char* out_message);

}  // namespace floodtide::comm::mpi

/// Returns from the function with the message if the MPI call fails.
#define FLOODTIDE_MPI_TRY(call)                                                    \
  do {                                                                             \
    if (::floodtide::comm::mpi::checked(call, #call, out_message) != 0) return -1; \
  } while (false)
