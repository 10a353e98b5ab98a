// SPDX-License-Identifier: Apache-2.0
// What a rank says about a collective that it starts: ranks compare it before anything else happens (agreement.hpp), and a rank
// without work of its own (join) learns from it what to take part in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {

enum class Collective : std::int32_t {
  barrier,
  broadcast,
  allgather,
  reduce_scatter,
  allreduce,
  lengths,  ///< the first half of an allgather or gather of bytes: how many each rank brings
  measure,  ///< of the table behind "auto", by further collectives
  locate,   ///< of the ranks' nodes, by further collectives
  alltoall,
  gather,
  group,  ///< several of these at once: `count` of them, `blocks` is a hash of their notices
  join,   ///< never compared: takes part in whatever the others start
};

/// Travels as it is: all ranks of a job are the same program. 56 bytes without holes, compared as a whole.
struct Notice {
  Collective collective = Collective::barrier;
  std::int32_t algorithm = -1;  ///< place in allreduce_rows; of a group 0 if all are allreduces, so that it can be joined
  ReduceType type = ReduceType::float32;
  ReduceOp op = ReduceOp::sum;
  Wire wire = Wire::native;
  std::int32_t root = -1;  ///< of a broadcast or gather
  std::int64_t count = 0;  ///< elements; bytes for broadcast, allgather and gather; -1 where each rank has its own
  std::int64_t segment_bytes = 0;
  std::int64_t blocks = 0;  ///< a hash of where they begin
  std::int64_t called = 0;  ///< a hash of the caller's words for its values (shape, type, operation); 0 without any

  friend bool operator==(const Notice&, const Notice&) = default;
};
static_assert(sizeof(Notice) == 56);

[[nodiscard]] std::int64_t hash_of(std::span<const std::int64_t> blocks);
[[nodiscard]] std::int64_t hash_of(std::string_view text);

/// "allreduce (ring, sum of 5 float32 in segments of 262144 bytes)"
[[nodiscard]] std::string describe(const Notice& notice);

/// Which of the things that callers rarely mention are to be shown: those in which ranks differ.
struct Shown {
  bool algorithm = false;
  bool wire = false;
  bool segments = false;
  bool blocks = false;
};

/// A collective in its caller's words: "allreduce (average of float32 (2, 3))", "broadcast (40 bytes from rank 0)".
[[nodiscard]] std::string in_words(const Notice& notice, std::string_view words, const Shown& shown);

/// Whether a rank that has joined can take part in this without values of its own, unless it is the root.
[[nodiscard]] bool can_be_joined(const Notice& notice);

}  // namespace floodtide::comm
