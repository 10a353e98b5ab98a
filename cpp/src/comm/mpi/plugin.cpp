// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include "comm/mpi/calls.hpp"

struct FloodtideMpiRequest {
  MPI_Request request = MPI_REQUEST_NULL;
  int from = -1;  // for receives: the sender, the tag and the expected bytes; -1: not a receive
  int tag = 0;
  int bytes = 0;
  bool cancelled = false;
};

namespace floodtide::comm::mpi {

namespace {

/// Makes a new communicator return errors, and passes it to the core.
int describe(std::unique_ptr<FloodtideMpiComm> comm, FloodtideMpiComm** out_comm, int* out_rank, int* out_size,
             char* out_message) {
  FLOODTIDE_MPI_TRY(MPI_Comm_set_errhandler(comm->comm, MPI_ERRORS_RETURN));
  FLOODTIDE_MPI_TRY(MPI_Comm_rank(comm->comm, out_rank));
  FLOODTIDE_MPI_TRY(MPI_Comm_size(comm->comm, out_size));
  *out_comm = comm.release();
  return 0;
}

int library_version(char* out_text, int capacity, char* out_message) {
  const std::lock_guard lock(call_mutex());
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  FLOODTIDE_MPI_TRY(MPI_Get_library_version(text, &length));
  std::snprintf(out_text, static_cast<std::size_t>(capacity), "%s", text);
  return 0;
}

int processor_name(char* out_text, int capacity, char* out_message) {
  const std::lock_guard lock(call_mutex());
  char text[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  FLOODTIDE_MPI_TRY(MPI_Get_processor_name(text, &length));
  std::snprintf(out_text, static_cast<std::size_t>(capacity), "%s", text);
  return 0;
}

int duplicate(std::uint64_t handle, FloodtideMpiComm** out_comm, int* out_rank, int* out_size, char* out_message) {
  const std::lock_guard lock(call_mutex());
  MPI_Comm parent = MPI_COMM_NULL;
  std::memcpy(&parent, &handle, sizeof parent);
  auto comm = std::make_unique<FloodtideMpiComm>();
  FLOODTIDE_MPI_TRY(MPI_Comm_dup(parent, &comm->comm));
  return describe(std::move(comm), out_comm, out_rank, out_size, out_message);
}

int split(FloodtideMpiComm* parent, int color, int key, FloodtideMpiComm** out_comm, int* out_rank, int* out_size,
          char* out_message) {
  const std::lock_guard lock(call_mutex());
  auto comm = std::make_unique<FloodtideMpiComm>();
  FLOODTIDE_MPI_TRY(MPI_Comm_split(parent->comm, color, key, &comm->comm));
  return describe(std::move(comm), out_comm, out_rank, out_size, out_message);
}

int release_comm(FloodtideMpiComm* comm, char* out_message) {
  const std::unique_ptr<FloodtideMpiComm> owner(comm);
  const std::lock_guard lock(call_mutex());
  char ended[kFloodtideMpiMessageBytes];
  if (require_running(ended) != 0) return 0;  // MPI_Finalize, perhaps in another thread, frees it
  FLOODTIDE_MPI_TRY(MPI_Comm_free(&comm->comm));
  return 0;
}

int abort_job(FloodtideMpiComm* comm, int status, char* out_message) {
  FLOODTIDE_MPI_TRY(MPI_Abort(comm->comm, status));  // without the mutex, because another thread may hang in an MPI call
  return 0;
}

int send(FloodtideMpiComm* comm, int to, int tag, const void* data, int bytes, FloodtideMpiRequest** out_request,
         char* out_message) {
  auto request = std::make_unique<FloodtideMpiRequest>();
  const std::lock_guard lock(call_mutex());
  if (require_running(out_message) != 0) return -1;
  FLOODTIDE_MPI_TRY(MPI_Isend(data, bytes, MPI_BYTE, to, tag, comm->comm, &request->request));
  *out_request = request.release();
  return 0;
}

int receive(FloodtideMpiComm* comm, int from, int tag, void* out_data, int bytes, FloodtideMpiRequest** out_request,
            char* out_message) {
  auto request = std::make_unique<FloodtideMpiRequest>();
  request->from = from;
  request->tag = tag;
  request->bytes = bytes;
  const std::lock_guard lock(call_mutex());
  if (require_running(out_message) != 0) return -1;
  FLOODTIDE_MPI_TRY(MPI_Irecv(out_data, bytes, MPI_BYTE, from, tag, comm->comm, &request->request));
  *out_request = request.release();
  return 0;
}

const MPI_Datatype kTypes[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT64_T, MPI_INT32_T};
const MPI_Op kOps[] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD};

int allreduce(FloodtideMpiComm* comm, void* inout_data, int count, int type, int op, FloodtideMpiRequest** out_request,
              char* out_message) {
  auto request = std::make_unique<FloodtideMpiRequest>();
  const std::lock_guard lock(call_mutex());
  FLOODTIDE_MPI_TRY(MPI_Iallreduce(MPI_IN_PLACE, inout_data, count, kTypes[type], kOps[op], comm->comm, &request->request));
  *out_request = request.release();
  return 0;
}

int blocking_allreduce(FloodtideMpiComm* comm, void* inout_data, int count, int type, int op, char* out_message) {
  const std::lock_guard lock(call_mutex());
  FLOODTIDE_MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, inout_data, count, kTypes[type], kOps[op], comm->comm));
  return 0;
}

int test(FloodtideMpiRequest* request, int* out_done, char* out_message) {
  const std::lock_guard lock(call_mutex());
  if (require_running(out_message) != 0) return -1;
  MPI_Status status;
  if (const int error = MPI_Test(&request->request, out_done, &status); error != MPI_SUCCESS) {
    char text[kFloodtideMpiMessageBytes] = "";
    checked(error, "MPI_Test", text);
    if (request->from < 0) {
      std::snprintf(out_message, kFloodtideMpiMessageBytes, "%s", text);
    } else {
      std::snprintf(out_message, kFloodtideMpiMessageBytes, "message from rank %d with tag %d, %d bytes expected: %.900s",
                    request->from, request->tag, request->bytes, text);
    }
    return -1;
  }
  if (*out_done == 0 || request->from < 0 || request->cancelled) return 0;
  int bytes = 0;
  FLOODTIDE_MPI_TRY(MPI_Get_count(&status, MPI_BYTE, &bytes));
  if (bytes == request->bytes) return 0;
  std::snprintf(out_message, kFloodtideMpiMessageBytes, "message from rank %d with tag %d has %d bytes, expected %d",
                request->from, request->tag, bytes, request->bytes);
  return -1;
}

int cancel(FloodtideMpiRequest* request, char* out_message) {
  if (request->from < 0) return 0;
  const std::lock_guard lock(call_mutex());
  if (require_running(out_message) != 0) return -1;
  request->cancelled = true;
  FLOODTIDE_MPI_TRY(MPI_Cancel(&request->request));
  return 0;
}

void release_request(FloodtideMpiRequest* request) { delete request; }

#if defined(OPEN_MPI)
constexpr const char* kFamily = "openmpi";
#else
constexpr const char* kFamily = "mpich";
#endif

constexpr FloodtideMpiTable kTable = {kFloodtideMpiTableVersion,
                                      sizeof(MPI_Comm),
                                      kFamily,
                                      &library_version,
                                      &start,
                                      &finalized,
                                      &finish,
                                      &processor_name,
                                      &world,
                                      &duplicate,
                                      &split,
                                      &release_comm,
                                      &abort_job,
                                      &send,
                                      &receive,
                                      &allreduce,
                                      &blocking_allreduce,
                                      &test,
                                      &cancel,
                                      &release_request};

}  // namespace
}  // namespace floodtide::comm::mpi

extern "C" __attribute__((visibility("default"))) const FloodtideMpiTable* floodtide_mpi_table() {
  return &floodtide::comm::mpi::kTable;
}
