// SPDX-License-Identifier: Apache-2.0
// Notice: description of a collective that a rank starts. The ranks compare their notices before anything else (agreement.hpp).
// A rank that has joined learns from the notice what to take part in.
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
  lengths,  ///< first half of an allgather of bytes: the number of bytes of each rank
  locate,   ///< announces further collectives that exchange node names
  alltoall,
  group,  ///< several collectives: `count` is their number, `blocks` a hash of their notices
  join,   ///< this rank takes part in what the other ranks start; never compared
};

/// Description of a collective. The bytes are sent unchanged, because all ranks of a job run the same program.
struct Notice {
  Collective collective = Collective::barrier;
  std::int32_t algorithm = -1;  ///< index in allreduce_rows(); for a group: 0 if all members are allreduces, else -1
  ReduceType type = ReduceType::float32;
  ReduceOp op = ReduceOp::sum;
  Wire wire = Wire::native;
  std::int32_t root = -1;  ///< root of a broadcast
  std::int64_t count = 0;  ///< number of elements, or of bytes for broadcast and allgather; -1 if it differs by rank
  std::int64_t segment_bytes = std::int64_t{kDefaultSegmentBytes};
  std::int64_t blocks = 0;  ///< hash of the limits of the blocks
  std::int64_t called = 0;  ///< hash of the caller's words for the values (shape, type, operation); 0 without words

  friend bool operator==(const Notice&, const Notice&) = default;
};
static_assert(sizeof(Notice) == 56);

/// Return a hash for a notice: 0 for no bytes.
[[nodiscard]] std::int64_t notice_hash(std::span<const std::byte> bytes);

/// Return a notice as text: "allreduce (ring, sum of 5 float32 in segments of 262144 bytes)".
[[nodiscard]] std::string describe(const Notice& notice);

/// Properties that in_words() shows, because ranks differ in them. Callers' words rarely mention these properties.
struct Shown {
  bool algorithm = false;
  bool wire = false;
  bool segments = false;
  bool blocks = false;
};

/// Return a collective in the caller's words: "allreduce (average of float32 (2, 3))", "broadcast (40 bytes from rank 0)".
[[nodiscard]] std::string in_words(const Notice& notice, std::string_view words, const Shown& shown);

/// True if a rank that has joined can take part in this collective, unless it is the root.
[[nodiscard]] bool can_be_joined(const Notice& notice);

}  // namespace floodtide::comm
