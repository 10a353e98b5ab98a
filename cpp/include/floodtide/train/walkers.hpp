// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "floodtide/base/error.hpp"
#include "floodtide/base/immovable.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/data/examples.hpp"
#include "floodtide/data/patch_source.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/sample_network.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::train {

struct WalkersOptions {
  std::int64_t walkers = 1;  ///< number of walkers over all ranks; rank r of N owns the walkers w with w mod N = r
  int rank = 0;
  int ranks = 1;
  std::uint64_t seed = 0;
  int prefetch = 2;         ///< examples that each walker reads in advance; 0: each example is read when it is needed
  int readers = 1;          ///< examples that the rank reads at the same time, over all its walkers
  bool cycle = true;        ///< true: a walker repeats its shard without end
  std::int64_t epochs = 1;  ///< if not `cycle`: number of epochs after which a walker has no more examples
};

/// Sums over training steps. Compute ratios after the sum over ranks, because ranks may have different numbers of walkers.
struct Metrics {
  std::int64_t fovs = 0;           ///< fields of view, or images, computed
  std::int64_t examples = 0;       ///< examples started
  std::int64_t dropped = 0;        ///< fields of view whose gradients came too late and were dropped
  std::int64_t staleness_sum = 0;  ///< sum over the fields of view used: number of updates since their parameters were copied
  std::int64_t true_positive = 0;  ///< voxels; prediction and label count as object from probability 0.5
  std::int64_t false_positive = 0;
  std::int64_t false_negative = 0;
  std::int64_t true_negative = 0;
  double loss_sum = 0;   ///< sum of the mean losses of the fields of view
  double data_s = 0;     ///< seconds of waiting for examples, summed over ranks
  double compute_s = 0;  ///< seconds of forward and backward passes, summed over ranks
  double reduce_s = 0;   ///< seconds of the gradient allreduce, waiting for other ranks included, summed over ranks
  double update_s = 0;   ///< seconds of clipping and optimizer, summed over ranks
};

/// Result of one pass of the walkers of a rank.
struct PassResult {
  std::int64_t examples = 0;  ///< number of examples in the pass
  double loss_sum = 0;        ///< sum of their losses
};

/// Interface between a Trainer and the training task: the walkers of one rank, and the network that they train.
///
/// Walkers do not know about other ranks. Exceptions concern this rank only, except those that `sum` throws in compute().
class Walkers : Immovable {
 public:
  /// Throws Error(invalid_argument) if there are fewer walkers than ranks, or for other options outside their ranges.
  Walkers(nn::Network& network, const WalkersOptions& options) : network_(network), options_(options) {
    FLOODTIDE_REQUIRE(options.walkers >= options.ranks, invalid_argument, "train: ", options.walkers, " walkers for ",
                      options.ranks, " ranks, expected at least one a rank");
    require_in(data::kPrefetch, std::int64_t{options.prefetch}, "train: prefetch");
    require_in(data::kReaders, std::int64_t{options.readers}, "train: readers");
    FLOODTIDE_REQUIRE(options.epochs >= 1, invalid_argument, "train: epochs is ", options.epochs, ", expected at least 1");
  }
  virtual ~Walkers() = default;

  [[nodiscard]] const WalkersOptions& options() const noexcept { return options_; }
  /// Return the number of walkers on this rank.
  [[nodiscard]] std::int64_t local() const noexcept {
    return (options_.walkers - options_.rank + options_.ranks - 1) / options_.ranks;
  }
  /// Return the global index of the walker in a slot of this rank: rank + slot * ranks.
  [[nodiscard]] std::int64_t number(std::int64_t slot) const noexcept { return options_.rank + slot * options_.ranks; }
  /// True if a walker of this rank has no more examples.
  [[nodiscard]] bool exhausted() const noexcept { return exhausted_; }
  [[nodiscard]] Metrics& metrics() noexcept { return metrics_; }

  [[nodiscard]] nn::Network& network() const noexcept { return network_; }
  [[nodiscard]] const ParameterLayout& layout() const noexcept { return network_.layout(); }
  [[nodiscard]] std::span<float> parameters() noexcept { return network_.parameters(); }
  /// Return who uses the parameters now. The writer of parameters() holds use().change().
  [[nodiscard]] nn::NetworkUse& use() const noexcept { return network_.use(); }

  /// Return the number of examples in one pass, over all walkers of all ranks.
  [[nodiscard]] virtual std::int64_t examples_per_pass() const noexcept { return options_.walkers; }
  /// Return how often compute() calls `sum` in one pass with examples. All ranks must run the same passes.
  [[nodiscard]] virtual std::int64_t sums_per_pass() const noexcept { return 0; }
  /// Return the largest possible count of numbers in one call of `sum`.
  [[nodiscard]] virtual std::int64_t longest_sum() const noexcept { return 0; }

  /// Starts to read examples in advance, from the current positions of the walkers. Call this before the first prepare(), and
  /// after resumption() has moved walkers.
  virtual void start_prefetcher() = 0;
  /// Fetches the examples of the next pass. Returns how many walkers have examples.
  virtual std::int64_t prepare() = 0;
  /// Runs forward and backward passes. scale * d(sum of the losses of the examples)/d(parameters) is added to `gradients`.
  virtual void compute(std::span<float> gradients, double scale, const nn::OnReady& on_ready, const nn::SumOverRanks& sum) = 0;
  /// Does the same with separate gradients for each walker: overwrites `out_gradients` [result of prepare(), parameters].
  /// Throws Error(unsupported) if sums_per_pass() is not 0.
  virtual void compute_each(std::span<float> out_gradients, double scale) = 0;
  /// Ends the pass: updates canvases and metrics. Throws Error(numerical) if a loss is not finite; the message names the
  /// walkers.
  virtual PassResult finish(std::int64_t step) = 0;

  /// State of a walker without its canvas: epoch, index of the example, moves done, and 1 if the walker has an example, else 0.
  using Position = std::array<std::int64_t, 4>;
  /// Return the size of the canvas of a walker, or zeros if walkers have no canvas.
  [[nodiscard]] virtual Vec3 canvas_shape() const noexcept { return {0, 0, 0}; }
  [[nodiscard]] virtual Position position(std::int64_t slot) const = 0;
  [[nodiscard]] virtual View<const float, 3> canvas(std::int64_t /*slot*/) const { return {nullptr, canvas_shape()}; }
  /// State of a walker in a checkpoint. The canvas is empty if walkers have none.
  struct State {
    Position position{};
    Tensor<float, 3> canvas;
  };
  /// Return a function that gives these states to the walkers of this rank, one for each slot. No walker changes before. Throws
  /// Error(out_of_range) for a position that does not exist; the message names the walker.
  [[nodiscard]] virtual std::function<void()> resumption(std::span<const State> states) = 0;

 protected:
  void set_exhausted() noexcept { exhausted_ = true; }

 private:
  nn::Network& network_;
  WalkersOptions options_;
  bool exhausted_ = false;
  Metrics metrics_;
};

/// As in flood::TrainingFloodOptions.
struct FloodOptions {
  double seed_pad = 0.05;
  double threshold = 0.9;
};

/// Make walkers that train a flood-filling network.
///
/// In each pass, each walker computes one field of view of its example. The canvas of the example is kept from pass to pass.
/// `network` and `examples` must outlive the walkers. Throws Error(invalid_argument) for options outside their ranges.
[[nodiscard]] std::unique_ptr<Walkers> make_flood_walkers(nn::Ffn& network, const data::ExampleSource& examples,
                                                          const WalkersOptions& options, const FloodOptions& flood);

/// Make walkers that train a network on the samples of their shards.
///
/// In each pass, each walker computes `batch` samples (an option of the source). The samples of a walker are one group of batch
/// normalisation. `network` and `samples` must outlive the walkers.
///
/// Throws Error(invalid_argument) for options outside their ranges, for another number of walkers than in `samples`, and if
/// only one of samples and network uses classes. Throws Error(shape_mismatch) if the samples do not fit the network.
[[nodiscard]] std::unique_ptr<Walkers> make_sample_walkers(nn::SampleNetwork& network, const data::PatchSource& samples,
                                                           const WalkersOptions& options, const nn::SegmentationLoss& loss);

}  // namespace floodtide::train
