// SPDX-License-Identifier: Apache-2.0
// Interface between the core, which does not include mpi.h, and a plug-in, which does: a table of C functions. Core and plug-in
// may be compiled with different compilers.
#pragma once

#include <cstdint>

extern "C" {

/// The version changes with every change of FloodtideMpiTable. The core refuses a plug-in with another version.
enum { kFloodtideMpiTableVersion = 5, kFloodtideMpiMessageBytes = 1024 };

enum FloodtideMpiType { kFloodtideMpiFloat32, kFloodtideMpiFloat64, kFloodtideMpiInt64, kFloodtideMpiInt32 };
enum FloodtideMpiOp { kFloodtideMpiSum, kFloodtideMpiMin, kFloodtideMpiMax, kFloodtideMpiProduct };

struct FloodtideMpiComm;     // a communicator; only the plug-in knows its members
struct FloodtideMpiRequest;  // a message or reduction that was started

/// Functions of a plug-in. Every function returns 0 on success. Otherwise it writes one line to out_message (at most
/// kFloodtideMpiMessageBytes, with a final zero) and returns another number. The plug-in makes one MPI call at a time.
struct FloodtideMpiTable {
  int version;
  int handle_bytes;    ///< sizeof(MPI_Comm)
  const char* family;  ///< "mpich" or "openmpi": family of the mpi.h with which the plug-in was compiled

  int (*library_version)(char* out_text, int capacity, char* out_message);  ///< may be called before start
  /// Starts MPI unless it runs already. out_started_here: 1 if this call has started it. out_thread_level: "single", ...
  int (*start)(int* out_started_here, const char** out_thread_level, char* out_message);
  int (*finalized)(int* out_finalized, char* out_message);
  int (*finish)(char* out_message);

  /// Writes the name of the processor, which is equal on ranks that share a node.
  int (*processor_name)(char* out_text, int capacity, char* out_message);
  int (*world)(std::uint64_t* out_handle, char* out_message);
  /// Duplicates a communicator. Collective. The new communicator returns errors instead of ending the job.
  int (*duplicate)(std::uint64_t handle, FloodtideMpiComm** out_comm, int* out_rank, int* out_size, char* out_message);
  int (*split)(FloodtideMpiComm* comm, int color, int key, FloodtideMpiComm** out_comm, int* out_rank, int* out_size,
               char* out_message);
  int (*release_comm)(FloodtideMpiComm* comm, char* out_message);
  int (*abort)(FloodtideMpiComm* comm, int status, char* out_message);

  int (*send)(FloodtideMpiComm* comm, int to, int tag, const void* data, int bytes, FloodtideMpiRequest** out_request,
              char* out_message);
  int (*receive)(FloodtideMpiComm* comm, int from, int tag, void* out_data, int bytes, FloodtideMpiRequest** out_request,
                 char* out_message);
  int (*allreduce)(FloodtideMpiComm* comm, void* inout_data, int count, int type, int op, FloodtideMpiRequest** out_request,
                   char* out_message);
  int (*blocking_allreduce)(FloodtideMpiComm* comm, void* inout_data, int count, int type, int op, char* out_message);
  int (*test)(FloodtideMpiRequest* request, int* out_done, char* out_message);
  /// Cancels a receive. test() then reports it as done, whether or not the message arrived. Does nothing for a send.
  int (*cancel)(FloodtideMpiRequest* request, char* out_message);
  void (*release_request)(FloodtideMpiRequest* request);  ///< frees a request that is done
};

/// Type of the only function that a plug-in exports.
using FloodtideMpiTableFunction = const FloodtideMpiTable* (*)();

}  // extern "C"

inline constexpr const char* kFloodtideMpiTableSymbol = "floodtide_mpi_table";
