// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "comm/allreduce/ring.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::comm {
namespace {

void library(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, std::size_t) {
  if (comm.size() > 1 && buffer.count > 0) comm.library_allreduce(buffer, op);
}

constexpr std::array kRows = {
    AllreduceRow{"ring",
                 "our ring over point-to-point messages: the order of summation depends on nothing but length and ranks",
                 &ring_allreduce},
    AllreduceRow{"mpi", "the MPI library's own allreduce, with the algorithm that it chooses", &library},
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
