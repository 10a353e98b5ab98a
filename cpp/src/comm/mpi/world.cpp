// SPDX-License-Identifier: Apache-2.0
// Starts and ends MPI. This is the only file that uses MPI_COMM_WORLD.
#include <cstring>

#include "comm/mpi/calls.hpp"

namespace floodtide::comm::mpi {
namespace {

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE: return "single";
    case MPI_THREAD_FUNNELED: return "funneled";
    case MPI_THREAD_SERIALIZED: return "serialized";
    case MPI_THREAD_MULTIPLE: return "multiple";
    default: return "unknown";
  }
}

/// Attribute callback that MPI_Finalize calls first. From then on, threads such as that of the watchdog do not call MPI.
int note_end(MPI_Comm, int, void*, void*) {
  const std::lock_guard lock(call_mutex());
  ending() = true;
  return MPI_SUCCESS;
}

}  // namespace

int start(int* out_started_here, const char** out_thread_level, char* out_message) {
  const std::lock_guard lock(call_mutex());
  *out_started_here = 0;
  int flag = 0;
  FLOODTIDE_MPI_TRY(MPI_Finalized(&flag));
  if (flag != 0) {
    std::snprintf(out_message, kFloodtideMpiMessageBytes, "MPI was finalised in this process and cannot be started again");
    return -1;
  }
  FLOODTIDE_MPI_TRY(MPI_Initialized(&flag));
  static bool ours = false;  // whether an earlier call has started MPI
  int level = MPI_THREAD_SINGLE;
  if (flag != 0) {
    FLOODTIDE_MPI_TRY(MPI_Query_thread(&level));
  } else {
    FLOODTIDE_MPI_TRY(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level));
    *out_started_here = 1;
    ours = true;
    // Otherwise, errors that belong to no communicator, such as a lost rank, would end the process without a message.
    FLOODTIDE_MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FLOODTIDE_MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  }
  static int key = MPI_KEYVAL_INVALID;  // static, because start() is called several times
  if (key == MPI_KEYVAL_INVALID) {
    FLOODTIDE_MPI_TRY(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note_end, &key, nullptr));
    FLOODTIDE_MPI_TRY(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr));
  }
  *out_thread_level = level_name(level);
  // Our calls take turns (call_mutex). Those of another owner of MPI, such as mpi4py, do not wait for ours.
  if (!ours && level < MPI_THREAD_MULTIPLE) {
    std::snprintf(
        out_message, kFloodtideMpiMessageBytes,
        "another library has started MPI at thread level %s, expected multiple (mpi4py's default), or floodtide.init() "
        "before MPI is started",
        level_name(level));
    return -1;
  }
  if (level < MPI_THREAD_SERIALIZED) {
    std::snprintf(out_message, kFloodtideMpiMessageBytes, "the MPI library has thread level %s, expected at least serialized",
                  level_name(level));
    return -1;
  }
  return 0;
}

int finalized(int* out_finalized, char* out_message) {
  const std::lock_guard lock(call_mutex());
  FLOODTIDE_MPI_TRY(MPI_Finalized(out_finalized));
  return 0;
}

int finish(char* out_message) {
  {
    const std::lock_guard lock(call_mutex());
    ending() = true;
  }
  FLOODTIDE_MPI_TRY(MPI_Finalize());
  return 0;
}

int world(std::uint64_t* out_handle, char*) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  *out_handle = 0;
  std::memcpy(out_handle, &comm, sizeof comm);
  return 0;
}

}  // namespace floodtide::comm::mpi
