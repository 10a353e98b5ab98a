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
    AllreduceRow{"ring", "chunks go round: least bytes, most steps; for long arrays on few ranks", &ring_schedule},
    AllreduceRow{"rabenseifner", "recursive halving and doubling: least bytes in few steps", &rabenseifner_schedule},
    AllreduceRow{"recursive_doubling", "whole arrays in fewest steps: for short arrays", &recursive_doubling_schedule},
    AllreduceRow{"two_level", "inside of each node first, then across nodes: several ranks a node", &two_level_schedule},
    AllreduceRow{"mpi", "the MPI library's own allreduce, with the algorithm that it chooses", nullptr},
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
