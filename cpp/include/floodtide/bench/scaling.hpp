// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "floodtide/base/isa.hpp"
#include "floodtide/bench/measure.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/unet.hpp"

namespace floodtide::bench {

/// What each rank computes in a step that is timed, on random data.
class Workload {
 public:
  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual ~Workload() = default;
  /// Forward and backward; adds to `gradients`, in the order of layout().
  virtual void pass(std::span<float> gradients) = 0;
  [[nodiscard]] virtual const ParameterLayout& layout() const noexcept = 0;
  [[nodiscard]] virtual std::span<float> parameters() noexcept = 0;
  virtual void parameters_changed() noexcept = 0;
  /// Floating-point operations of a pass, as direct convolution.
  [[nodiscard]] virtual double flops() const noexcept = 0;
};

/// One field of view.
[[nodiscard]] std::unique_ptr<Workload> ffn_workload(const nn::FfnOptions& options, int rank);
/// `batch` images of that size, one channel and two classes; Dice and cross-entropy.
[[nodiscard]] std::unique_ptr<Workload> unet_workload(const nn::UNetOptions& options, const Vec3& size, std::int64_t batch,
                                                      int rank);

/// Training steps (a pass on each rank, allreduce, Adam) on one rank alone and on all ranks at once, and the FMA peak
/// likewise, in turn, so that all four see the same machine.
struct Scaling {
  Samples alone;       ///< seconds of a step of rank 0 while the other ranks sleep
  Samples together;    ///< seconds of a step of all ranks, of the slowest rank
  Samples peak_alone;  ///< seconds of the peak loop, likewise
  Samples peak_together;
  double peak_flops = 0;  ///< of one rank's peak loop
  double step_flops = 0;  ///< of one rank's step, as direct convolution
  /// Throughput of all ranks over that of one.
  [[nodiscard]] double speedup(int ranks) const { return ranks * alone.quantile(0.5) / together.quantile(0.5); }
  /// The same for the peak: what the cores themselves allow.
  [[nodiscard]] double peak_speedup(int ranks) const { return ranks * peak_alone.quantile(0.5) / peak_together.quantile(0.5); }
};

/// Collective: measures until there are `enough` samples of each of the four; `seconds` count in the steps of rank 0
/// alone. Every rank gets the result. All ranks use num_threads() threads. Throws on all ranks if one fails.
[[nodiscard]] Scaling measure_scaling(comm::Communicator& communicator, Workload& workload, double seconds,
                                      const std::string& algorithm);

}  // namespace floodtide::bench
