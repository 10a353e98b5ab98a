// SPDX-License-Identifier: Apache-2.0
// Training mode in which a rank does not wait for every other rank. On each rank, a thread communicates with the other ranks
// while the caller computes. This thread owns the parameters in the meantime, and the caller gets copies.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>

#include "floodtide/base/immovable.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/train/trainer.hpp"

namespace floodtide::train {

/// Flags at the begin of a message, before the gradients. They are summed over ranks together with the gradients.
inline constexpr std::size_t kFlags = 16;    // one cache line, so that the gradients are aligned
inline constexpr std::size_t kExamples = 0;  // number of examples
inline constexpr std::size_t kFailed = 1;    // number of ranks that failed
inline constexpr std::size_t kFirstRequest = 2;
inline constexpr std::uint32_t kRequests[] = {kLog, kCheckpoint, kStop, kRate};
// For the noise scale, sums over ranks: squared norms of the ranks' mean gradients, 1 / examples, and the number of terms.
inline constexpr std::size_t kSmallSquares = 13, kSmallInverses = 14, kSmallBatches = 15;
static_assert(kFirstRequest + std::size(kRequests) <= kSmallSquares && kSmallBatches < kFlags);

/// Return the requests that are set in the flags of a message.
[[nodiscard]] inline std::uint32_t requests_of(std::span<const float> flags) {
  std::uint32_t requests = 0;
  for (std::size_t i = 0; i < std::size(kRequests); ++i) {
    if (flags[kFirstRequest + i] > 0) requests |= kRequests[i];
  }
  return requests;
}

/// Result of giving gradients to an exchange.
struct ExchangeReport {
  std::int64_t step = 0;       ///< number of updates so far
  bool used = true;            ///< true: these gradients are part of an update, or will be
  std::int64_t staleness = 0;  ///< number of updates between the parameters of these gradients and the update that used them
  bool meet = false;           ///< true: all ranks get this at the same step; collectives may follow, then resume()
  bool failed = false;         ///< at a meeting: true if a rank has failed
  std::uint32_t requests = 0;  ///< at a meeting: union of the requests
};

/// The parameters and their updates. All ranks make the same updates.
class Updates : Immovable {
 public:
  virtual ~Updates() = default;
  /// Applies the sum of gradients in `message` (after the flags) as update number `step`. Throws Error(numerical).
  virtual void update(std::span<float> message, std::int64_t step) = 0;
  [[nodiscard]] virtual std::span<const float> parameters() const = 0;
  /// True if all ranks should meet after `steps` updates.
  [[nodiscard]] virtual bool meet_after(std::int64_t steps) const = 0;
};

class GradientExchange : Immovable {
 public:
  virtual ~GradientExchange() = default;

  /// Starts at this step, or continues after a meeting. Call this on all ranks.
  virtual void resume(std::int64_t step) = 0;
  /// Gives a message (flags and gradients) to the exchange, waits until it was used or dropped, and copies the newest
  /// parameters. `base_step` is the step of the parameters of these gradients. Throws the exceptions of the rank's thread.
  virtual ExchangeReport give(std::span<const float> message, std::int64_t base_step, std::span<float> out_parameters) = 0;
};

struct ExchangeOptions {
  std::size_t length = 0;  ///< floats in a message
  int contributors = 1;    ///< number of ranks in an update
  Late late = Late::drop;
  std::string algorithm;
};

/// Make an exchange for Mode::partial: each update uses the gradients of the first `contributors` ranks that are ready.
/// Collective.
///
/// Rank 0 decides which ranks contribute. The other ranks contribute zeros, so that an update is an allreduce of all ranks. The
/// threads of the ranks drive it. Source: Chen et al., arXiv 1604.00981.
[[nodiscard]] std::unique_ptr<GradientExchange> make_partial_exchange(comm::Communicator& comm, Updates& updates,
                                                                      const ExchangeOptions& options);

}  // namespace floodtide::train
