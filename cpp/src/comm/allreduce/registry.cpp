// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "comm/allreduce/rabenseifner.hpp"
#include "comm/allreduce/recursive_doubling.hpp"
#include "comm/allreduce/ring.hpp"
#include "comm/allreduce/two_level.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {
namespace {

constexpr std::array kRows = {
    AllreduceRow{"ring", "chunks go around all ranks; fewest bytes, most steps; for long arrays on few ranks", &ring_schedule},
    AllreduceRow{"rabenseifner", "recursive halving and doubling; fewest bytes in few steps", &rabenseifner_schedule},
    AllreduceRow{"recursive_doubling", "ranks exchange whole arrays; fewest steps; for short arrays",
                 &recursive_doubling_schedule},
    AllreduceRow{"two_level", "first inside each node, then between nodes; for several ranks per node", &two_level_schedule},
    AllreduceRow{"mpi", "the allreduce of the MPI library, with the algorithm that the library chooses", nullptr},
};

}  // namespace

std::span<const AllreduceRow> allreduce_rows() { return kRows; }

const AllreduceRow& allreduce_row(std::string_view name) {
  std::string known;
  for (const AllreduceRow& row : kRows) {
    if (row.name == name) return row;
    known += str_cat(known.empty() ? "" : ", ", row.name);
  }
  raise(ErrorCode::invalid_argument, "allreduce: unknown algorithm '", name, "', expected one of ", known);
}

}  // namespace floodtide::comm
