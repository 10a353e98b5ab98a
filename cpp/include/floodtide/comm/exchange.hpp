// SPDX-License-Identifier: Apache-2.0
// Allgather and alltoall of blocks whose lengths only their senders know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/operation.hpp"

namespace floodtide::comm {

/// What a rank brings: items of one size, one after another.
struct Items {
  std::span<const std::byte> data;  ///< stays alive and untouched until the operation is done
  std::int64_t item_bytes = 1;
  std::int64_t count = 0;   ///< data holds as many items; told apart because items may have no bytes
  std::string kind;         ///< of the items, as text: all ranks must bring the same
  std::string description;  ///< what error messages say of these items: "float32 of shape (3, 2)"
  std::string problem;      ///< not empty: what is wrong with the call on this rank. No rank exchanges anything then.
};

/// What came of it.
class Exchange {
 public:
  /// Once the operation is done: throws AgreedError on every rank if a rank had a problem (the lowest such rank's) or the kinds
  /// differ. Nothing has been exchanged then, and the communicator can be used as before.
  void require_done() const;
  /// Items that came from each rank.
  [[nodiscard]] std::span<const std::int64_t> counts() const noexcept { return counts_; }
  /// They themselves, in rank order. The caller may move them away.
  [[nodiscard]] AlignedBuffer<std::byte>& data() noexcept { return data_; }

 private:
  friend class ExchangePlan;
  std::vector<std::int64_t> counts_;
  AlignedBuffer<std::byte> data_;
  bool invalid_ = false;  // a rank's call was wrong
  int failed_rank_ = -1;
  int ranks_ = 0;
  std::string failure_;
};

/// Collective: every rank's items on every rank. Ranks first tell each other what they bring (a ring of messages of 256 bytes),
/// then the items go round (ring). All of it may happen later, while operations are driven: nothing is waited for here.
[[nodiscard]] Operation start_allgather(Communicator& comm, const Items& items, std::shared_ptr<Exchange> out);

/// Collective: the first splits[0] items go to rank 0, the next splits[1] to rank 1, and so on. Splits that are negative, or do
/// not have one number a rank, or do not add up to the items, are a problem of the call, which all ranks then raise. Ranks
/// first tell each other what comes (256 bytes to every other rank), then every two exchange their blocks (pairwise).
[[nodiscard]] Operation start_alltoall(Communicator& comm, const Items& items, std::span<const std::int64_t> splits,
                                       std::shared_ptr<Exchange> out);

}  // namespace floodtide::comm
