// SPDX-License-Identifier: Apache-2.0
// Rows of all algorithms. The file of an algorithm defines its row.
#include <array>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {

extern const AllreduceRow kRing;
extern const AllreduceRow kRabenseifner;
extern const AllreduceRow kRecursiveDoubling;
extern const AllreduceRow kTwoLevel;

std::span<const AllreduceRow> allreduce_rows() {
  static const std::array rows = {
      kRing,
      kRabenseifner,
      kRecursiveDoubling,
      kTwoLevel,
      AllreduceRow{.name = "mpi", .help = "the allreduce of the MPI library, with the algorithm that the library chooses"},
  };
  return rows;
}

const AllreduceRow& allreduce_row(std::string_view name) {
  std::string known;
  for (const AllreduceRow& row : allreduce_rows()) {
    if (row.name == name) return row;
    known += str_cat(known.empty() ? "" : ", ", row.name);
  }
  raise(ErrorCode::invalid_argument, "allreduce: unknown algorithm '", name, "', expected one of ", known);
}

}  // namespace floodtide::comm
