// SPDX-License-Identifier: Apache-2.0
// Continue without a lost rank, with User Level Failure Mitigation (ULFM) of the MPI Forum, which Open MPI 5 implements. The
// functions are looked up at run time, because one plug-in is used with all versions of its family.
//
// Source: W. Bland et al., Post-failure recovery of MPI communication capability, IJHPCA 27 (2013). Functions:
// https://docs.open-mpi.org/en/main/features/ulfm.html
#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "comm/mpi/calls.hpp"

namespace floodtide::comm::mpi {
namespace {

struct Recovery {
  int (*revoke)(MPI_Comm);
  int (*agree)(MPI_Comm, int*);
  int (*shrink)(MPI_Comm, MPI_Comm*);
};

template <class Function>
Function found(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

Recovery recovery() {
  return {found<int (*)(MPI_Comm)>("MPIX_Comm_revoke"), found<int (*)(MPI_Comm, int*)>("MPIX_Comm_agree"),
          found<int (*)(MPI_Comm, MPI_Comm*)>("MPIX_Comm_shrink")};
}

/// True if the job was started with `mpiexec --with-ft ulfm`, which sets this variable. Without it, the functions exist, but
/// the launcher ends the job if a rank is lost.
bool started_so() {
  static const bool so = [] {
    const char* const text = std::getenv("OMPI_MCA_mpi_ft_enable");
    const std::string_view value = text == nullptr ? "" : text;
    return value == "1" || value == "true" || value == "t" || value == "yes" || value == "y" || value == "enabled";
  }();
  return so;
}

}  // namespace

int survives(int* out_survives, char*) {
#if defined(OPEN_MPI)
  constexpr bool kTried = true;
#else
  constexpr bool kTried = false;
#endif
  const Recovery calls = recovery();
  const bool present = calls.revoke != nullptr && calls.agree != nullptr && calls.shrink != nullptr;
  *out_survives = kTried && present && started_so() ? 1 : 0;
  return 0;
}

int settle(FloodtideMpiComm* comm, int fine, FloodtideMpiComm** out_comm, int* out_rank, int* out_size, char* out_message) {
  const Recovery calls = recovery();
  const std::lock_guard lock(call_mutex());
  if (require_running(out_message) != 0) return -1;
  *out_comm = nullptr;
  if (fine == 0) FLOODTIDE_MPI_TRY(calls.revoke(comm->comm));
  int all_fine = fine;
  // agree() also returns an error if ranks are lost. The other ranks have then agreed on `all_fine` anyway, but a lost rank may
  // have ended its last collective, so that they all are fine. The second call agrees on whether the first one found a loss.
  int complete = calls.agree(comm->comm, &all_fine) == MPI_SUCCESS ? 1 : 0;
  static_cast<void>(calls.agree(comm->comm, &complete));
  if (all_fine != 0 && complete != 0) return 0;
  auto rest = std::make_unique<FloodtideMpiComm>();
  FLOODTIDE_MPI_TRY(calls.shrink(comm->comm, &rest->comm));
  rank_was_lost() = true;
  return describe(std::move(rest), out_comm, out_rank, out_size, out_message);
}

}  // namespace floodtide::comm::mpi
