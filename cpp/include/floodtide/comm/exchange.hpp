// SPDX-License-Identifier: Apache-2.0
// Allgather and alltoall of blocks whose lengths are known only to their senders.
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

/// Input of one rank: items of equal size, one after another.
struct Items {
  std::span<const std::byte> data;  ///< stays alive and untouched until the operation is done
  std::int64_t item_bytes = 1;
  std::int64_t count = 0;   ///< number of items in `data`; a separate field, because items may have no bytes
  std::string kind;         ///< type of the items, as text; must be the same on all ranks
  std::string description;  ///< description of these items in error messages: "float32 of shape (3, 2)"
  std::string problem;      ///< not empty: what is wrong with the call on this rank. No rank exchanges items then.
};

/// Result of an allgather or alltoall on one rank.
class Exchange {
 public:
  /// Throws AgreedError on every rank if a rank had a problem, or if the kinds differ. Call this when the operation is done.
  ///
  /// If several ranks had a problem, the error is that of the lowest rank. No items have been exchanged then, and the
  /// communicator can still be used.
  void require_done() const;
  /// Return the number of items received from each rank.
  [[nodiscard]] std::span<const std::int64_t> counts() const noexcept { return counts_; }
  /// Return the items of all ranks, in rank order. The caller may move the buffer away.
  [[nodiscard]] AlignedBuffer<std::byte>& data() noexcept { return data_; }

 private:
  friend class ExchangePlan;
  std::vector<std::int64_t> counts_;
  AlignedBuffer<std::byte> data_;
  bool invalid_ = false;  // the call was wrong on some rank
  int failed_rank_ = -1;
  int ranks_ = 0;
  std::string failure_;
};

/// Start to copy the items of every rank to all ranks. Collective. Returns without waiting.
///
/// The ranks first exchange headers with the number and kind of their items (ring, 256 bytes per message), then the items
/// (ring). Both happen while operations are driven (Operation).
[[nodiscard]] Operation start_allgather(Communicator& comm, const Items& items, std::shared_ptr<Exchange> out);

/// Start to send the first splits[0] items to rank 0, the next splits[1] to rank 1, and so on. Collective. Returns without
/// waiting.
///
/// `splits` has one number per rank. The numbers are at least 0 and add up to items.count; otherwise require_done() throws on
/// all ranks. The ranks first exchange headers (256 bytes to every other rank), then their blocks (pairwise).
[[nodiscard]] Operation start_alltoall(Communicator& comm, const Items& items, std::span<const std::int64_t> splits,
                                       std::shared_ptr<Exchange> out);

}  // namespace floodtide::comm
