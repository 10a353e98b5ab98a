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

/// Computation of one rank in a timed step, on random data.
class Workload {
 public:
  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual ~Workload() = default;
  /// Runs a forward and a backward pass. The gradients are added to `gradients`, in the order of layout().
  virtual void pass(std::span<float> gradients) = 0;
  [[nodiscard]] virtual const ParameterLayout& layout() const noexcept = 0;
  [[nodiscard]] virtual std::span<float> parameters() noexcept = 0;
  [[nodiscard]] virtual nn::NetworkUse& use() const noexcept = 0;
  /// Return the floating-point operations of a pass, counted as direct convolution.
  [[nodiscard]] virtual double flops() const noexcept = 0;
};

/// Make a workload of one field of view of a flood-filling network.
[[nodiscard]] std::unique_ptr<Workload> ffn_workload(const nn::FfnOptions& options, int rank);
/// Make a workload of `batch` images of this size for a U-Net, with one channel, two classes, and Dice plus cross-entropy.
[[nodiscard]] std::unique_ptr<Workload> unet_workload(const nn::UNetOptions& options, const Vec3& size, std::int64_t batch,
                                                      int rank);

/// Times of training steps (pass, allreduce, Adam) and of the peak loop, each on rank 0 alone and on all ranks together. The
/// four measurements alternate, so that all see the same state of the machine.
struct Scaling {
  Samples alone;          ///< seconds of a step on rank 0 while the other ranks wait in a barrier
  Samples together;       ///< seconds of a step on all ranks, for the slowest rank
  Samples peak_alone;     ///< seconds of the peak loop on rank 0 while the other ranks wait in a barrier
  Samples peak_together;  ///< seconds of the peak loop on all ranks, for the slowest rank
  double peak_flops = 0;  ///< floating-point operations of the peak loop of one rank
  double step_flops = 0;  ///< floating-point operations of the step of one rank, counted as direct convolution
  /// Return the throughput of all ranks, divided by that of one rank.
  [[nodiscard]] double speedup(int ranks) const { return ranks * alone.quantile(0.5) / together.quantile(0.5); }
  /// Return the same ratio for the peak loop. This is the largest speedup that the cores allow.
  [[nodiscard]] double peak_speedup(int ranks) const { return ranks * peak_alone.quantile(0.5) / peak_together.quantile(0.5); }
};

/// Measure the scaling of a workload. Collective; every rank gets the result.
///
/// The measurement ends when there are `enough` samples, and the steps of rank 0 alone have taken `seconds`. All ranks use
/// num_threads() threads.
[[nodiscard]] Scaling measure_scaling(comm::Communicator& communicator, Workload& workload, double seconds,
                                      const std::string& algorithm);

}  // namespace floodtide::bench
