// SPDX-License-Identifier: Apache-2.0
// Ways to train in which a rank does not wait for every other one. A thread of the rank talks to the others while the caller
// computes; it owns the parameters in the meantime, and hands out copies.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>

#include "floodtide/comm/communicator.hpp"
#include "floodtide/train/trainer.hpp"

namespace floodtide::train {

/// Flags in front of the gradients of a message; summed with them.
inline constexpr std::size_t kFlags = 16;    // a cache line, so that the gradients behind them are aligned
inline constexpr std::size_t kExamples = 0;  // that the gradients are from
inline constexpr std::size_t kFailed = 1;    // ranks that failed
inline constexpr std::size_t kFirstRequest = 2;
inline constexpr std::uint32_t kRequests[] = {kLog, kCheckpoint, kStop, kRate};
static_assert(kFirstRequest + std::size(kRequests) <= kFlags);

/// The requests that are set in a message's flags.
[[nodiscard]] inline std::uint32_t requests_of(std::span<const float> flags) {
  std::uint32_t requests = 0;
  for (std::size_t i = 0; i < std::size(kRequests); ++i) {
    if (flags[kFirstRequest + i] > 0) requests |= kRequests[i];
  }
  return requests;
}

/// What a rank learns when it has given its gradients away.
struct ExchangeReport {
  std::int64_t step = 0;       ///< updates so far
  bool used = true;            ///< whether these gradients became part of one, or will
  std::int64_t staleness = 0;  ///< updates between the parameters that they were computed from and the one they went into
  bool meet = false;           ///< all ranks get this at the same step: collectives may follow, then resume()
  bool failed = false;         ///< at a meeting: some rank has failed
  std::uint32_t requests = 0;  ///< at a meeting: those of all ranks
};

/// The parameters and what changes them, by whichever thread holds them. On all ranks that update: the same updates.
class Updates {
 public:
  Updates() = default;
  Updates(const Updates&) = delete;
  Updates& operator=(const Updates&) = delete;
  Updates(Updates&&) = delete;
  Updates& operator=(Updates&&) = delete;
  virtual ~Updates() = default;
  /// Applies the sum of gradients (behind the flags) as update number `step`. Throws Error(numerical).
  virtual void update(std::span<float> message, std::int64_t step) = 0;
  [[nodiscard]] virtual std::span<const float> parameters() const = 0;
  /// Whether all ranks should meet when `steps` updates are done.
  [[nodiscard]] virtual bool meet_after(std::int64_t steps) const = 0;
};

class GradientExchange {
 public:
  GradientExchange() = default;
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;
  GradientExchange(GradientExchange&&) = delete;
  GradientExchange& operator=(GradientExchange&&) = delete;
  virtual ~GradientExchange() = default;

  /// Begins, or goes on after all ranks met, at this step. On all ranks.
  virtual void resume(std::int64_t step) = 0;
  /// Gives away a message (flags and gradients) computed from the parameters of `base_step`, waits until it was used or
  /// dropped, and copies the newest parameters. Throws what the rank's thread met with.
  virtual ExchangeReport give(std::span<const float> message, std::int64_t base_step, std::span<float> out_parameters) = 0;
};

struct ExchangeOptions {
  std::size_t length = 0;  ///< floats of a message
  int contributors = 1;    ///< of a partial average
  Late late = Late::drop;
  std::string algorithm;
};

/// Averages over the first `contributors` ranks that are ready, for each update (Chen et al., arXiv 1604.00981). Rank 0 says
/// whose gradients an update has; the others put in zeros, so that it is an allreduce among all, driven by the ranks' threads.
/// Collective.
[[nodiscard]] std::unique_ptr<GradientExchange> make_partial_exchange(comm::Communicator& comm, Updates& updates,
                                                                      const ExchangeOptions& options);

/// Asynchronous updates, the parameter server that the synchronous method is compared with: rank 0's thread applies every
/// rank's gradients as they come and sends back the newest parameters. Nobody waits for anybody, and gradients are stale: of
/// parameters that others have changed since. Only rank 0's `updates` are used. Collective.
[[nodiscard]] std::unique_ptr<GradientExchange> make_parameter_server(comm::Communicator& comm, Updates& updates,
                                                                      const ExchangeOptions& options);

}  // namespace floodtide::train
