// SPDX-License-Identifier: Apache-2.0
// What a rank tells the next one when it starts a collective, so that ranks which disagree learn it at once, with names, and do
// not hang; and so that a rank without work of its own (join) knows what to take part in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {

enum class Purpose : std::int32_t {
  collective,  ///< the sender has started this collective
  joining,     ///< all ranks from 0 to the sender have joined
  joined,      ///< all ranks have joined
};

enum class Collective : std::int32_t {
  barrier,
  broadcast,
  allgather,
  reduce_scatter,
  allreduce,
  measure,  ///< of the table behind "auto", by further collectives
  locate,   ///< of the ranks' nodes, by further collectives
};

/// Travels as it is: all ranks of a job are the same program. 64 bytes without holes, compared as a whole.
struct Notice {
  std::int64_t number = 0;  ///< how many collectives the communicator has had before
  Purpose purpose = Purpose::collective;
  Collective collective = Collective::barrier;
  std::int32_t algorithm = -1;  ///< place in allreduce_rows
  ElementType type = ElementType::float32;
  ReduceOp op = ReduceOp::sum;
  Wire wire = Wire::native;
  std::int64_t count = 0;  ///< elements; bytes for broadcast and allgather
  std::int64_t segment_bytes = 0;
  /// broadcast: the root. Blocks: a hash of where they begin. joining, joined: the last rank to join so far, and below it the
  /// number of its join.
  std::int64_t detail = 0;
  std::int64_t joined_at = 0;

  friend bool operator==(const Notice&, const Notice&) = default;
};
static_assert(sizeof(Notice) == 64);

[[nodiscard]] std::int64_t hash_of(std::span<const std::int64_t> blocks);

/// "allreduce (ring, sum of 5 float32)"
[[nodiscard]] std::string describe(const Notice& notice);
/// "rank 1: collective 17 is a barrier here, but an allreduce (...) on rank 0"
[[nodiscard]] std::string mismatch(int here, const Notice& own, int there, const Notice& theirs);

}  // namespace floodtide::comm
