// SPDX-License-Identifier: Apache-2.0
// The border between the core, which knows no mpi.h, and a plug-in, which is compiled against one: a table of C functions.
// Nothing else crosses it, so the two sides may come from different compilers.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Changes with every change of FloodtideMpiTable; the core refuses a plug-in of another version.
enum { kFloodtideMpiTableVersion = 4, kFloodtideMpiMessageBytes = 1024 };

enum FloodtideMpiType { kFloodtideMpiFloat32, kFloodtideMpiFloat64, kFloodtideMpiInt64, kFloodtideMpiInt32 };
enum FloodtideMpiOp { kFloodtideMpiSum, kFloodtideMpiMin, kFloodtideMpiMax, kFloodtideMpiProduct };

struct FloodtideMpiComm;     // a communicator of the plug-in's own
struct FloodtideMpiRequest;  // a message or reduction under way

/// Every function returns 0, or another number after it has written one line (at most kFloodtideMpiMessageBytes, with its
/// final zero) to out_message. MPI calls of one process are made one at a time.
struct FloodtideMpiTable {
  int version;
  int handle_bytes;    ///< sizeof(MPI_Comm)
  const char* family;  ///< "mpich" or "openmpi": the mpi.h that the plug-in was compiled with

  int (*library_version)(char* out_text, int capacity, char* out_message);  ///< may be called before start
  /// Starts MPI unless that was done before (out_started_here says). out_thread_level: "single", "funneled", ...
  int (*start)(int* out_started_here, const char** out_thread_level, char* out_message);
  int (*finalized)(int* out_finalized, char* out_message);
  int (*finish)(char* out_message);

  /// Equal on ranks that share a node.
  int (*processor_name)(char* out_text, int capacity, char* out_message);
  int (*world)(std::uint64_t* out_handle, char* out_message);
  /// Collective over `handle`. The new communicator returns errors.
  int (*duplicate)(std::uint64_t handle, FloodtideMpiComm** out_comm, int* out_rank, int* out_size, char* out_message);
  int (*split)(FloodtideMpiComm* comm, int color, int key, FloodtideMpiComm** out_comm, int* out_rank, int* out_size,
               char* out_message);
  int (*release_comm)(FloodtideMpiComm* comm, char* out_message);
  int (*abort)(FloodtideMpiComm* comm, int status, char* out_message);

  /// Whether ranks can go on after one of them is lost: with an Open MPI that was started so (--with-ft ulfm).
  int (*survives)(int* out_survives, char* out_message);
  /// Collective over the ranks that live: wakes those that wait on `comm` unless this rank is fine, and tells whether all are.
  /// If not, out_comm is a communicator of the ranks that live; else null.
  int (*settle)(FloodtideMpiComm* comm, int fine, FloodtideMpiComm** out_comm, int* out_rank, int* out_size, char* out_message);

  int (*send)(FloodtideMpiComm* comm, int to, int tag, const void* data, int bytes, FloodtideMpiRequest** out_request,
              char* out_message);
  int (*receive)(FloodtideMpiComm* comm, int from, int tag, void* out_data, int bytes, FloodtideMpiRequest** out_request,
                 char* out_message);
  int (*allreduce)(FloodtideMpiComm* comm, void* inout_data, int count, int type, int op, FloodtideMpiRequest** out_request,
                   char* out_message);
  int (*blocking_allreduce)(FloodtideMpiComm* comm, void* inout_data, int count, int type, int op, char* out_message);
  int (*test)(FloodtideMpiRequest* request, int* out_done, char* out_message);
  /// Takes back a receive: test() then becomes true whether or not the message came. Sends are left alone.
  int (*cancel)(FloodtideMpiRequest* request, char* out_message);
  void (*release_request)(FloodtideMpiRequest* request);  ///< of a request that is done
};

/// The one symbol that a plug-in exports.
using FloodtideMpiTableFunction = const FloodtideMpiTable* (*)();

}  // extern "C"

inline constexpr const char* kFloodtideMpiTableSymbol = "floodtide_mpi_table";
