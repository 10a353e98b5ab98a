// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "floodtide/data/hdf5.hpp"
#include "floodtide/nn/ready.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/tensor/view.hpp"
#include "floodtide/train/metrics.hpp"

namespace floodtide::train {

struct WalkersOptions {
  std::int64_t walkers = 1;  ///< over all ranks; rank r of N owns the walkers w with w mod N = r
  int rank = 0;
  int ranks = 1;
  std::uint64_t seed = 0;
  int prefetch = 2;         ///< examples that each walker has ready in advance; 0: each is read when it is needed
  int readers = 1;          ///< of them read at a time, over all walkers of the rank
  bool cycle = true;        ///< a walker that has been through its shard begins its next epoch, as often as it takes
  std::int64_t epochs = 1;  ///< otherwise: passes through its shard after which a walker has no more examples
};

/// What a walker's examples did in a pass.
struct PassResult {
  std::int64_t examples = 0;  ///< that took part
  double loss_sum = 0;        ///< of their losses
};

/// The walkers of one rank and the network that they train: all that a Trainer knows of either. It knows nothing of other
/// ranks; what it throws concerns this rank only, except for what `sum` throws in compute().
class Walkers {
 public:
  /// Throws Error(invalid_argument) if there are fewer walkers than ranks, readers or epochs are below 1, or prefetch is below
  /// 0.
  explicit Walkers(const WalkersOptions& options);
  Walkers(const Walkers&) = delete;
  Walkers& operator=(const Walkers&) = delete;
  Walkers(Walkers&&) = delete;
  Walkers& operator=(Walkers&&) = delete;
  virtual ~Walkers() = default;

  [[nodiscard]] const WalkersOptions& options() const noexcept { return options_; }
  /// Walkers of this rank, ascending: the one in slot i has the number rank + i * ranks.
  [[nodiscard]] std::int64_t local() const noexcept;
  [[nodiscard]] std::int64_t number(std::int64_t slot) const noexcept { return options_.rank + slot * options_.ranks; }
  /// True once some walker has been through its shard as often as it may.
  [[nodiscard]] bool exhausted() const noexcept { return exhausted_; }
  [[nodiscard]] Metrics& metrics() noexcept { return metrics_; }

  [[nodiscard]] virtual const ParameterLayout& layout() const noexcept = 0;
  [[nodiscard]] virtual std::span<float> parameters() noexcept = 0;
  /// To be called after writing to parameters().
  virtual void parameters_changed() noexcept = 0;
  /// Writes the network's architecture and parameters into a file that is being created.
  virtual void write_network(data::Hdf5File& file) const = 0;
  /// Throws Error(invalid_file) if the file holds another network.
  virtual void read_network(const data::Hdf5File& file) = 0;

  /// Examples that all walkers together have in a pass.
  [[nodiscard]] virtual std::int64_t examples_per_pass() const noexcept { return options_.walkers; }
  /// Calls of `sum` that a pass makes, also one without examples, and the most numbers that one of them has.
  [[nodiscard]] virtual std::int64_t sums_per_pass() const noexcept { return 0; }
  [[nodiscard]] virtual std::int64_t longest_sum() const noexcept { return 0; }

  /// Reads ahead from where the walkers are. To be called first, and after they were moved by loading a checkpoint.
  virtual void start_prefetcher() = 0;
  /// Fetches the examples of the next pass; returns how many walkers have one.
  virtual std::int64_t prepare() = 0;
  /// Forward and backward of all of them: scale * d(sum of the examples' losses)/d(parameters) is added to `gradients`.
  virtual void compute(std::span<float> gradients, double scale, const nn::OnReady& on_ready, const nn::SumOverRanks& sum) = 0;
  /// The same, each walker's gradients apart, one after another: replaces `out_gradients` [prepared, parameters]. Throws
  /// Error(unsupported) if passes make sums.
  virtual void compute_each(std::span<float> out_gradients, double scale) = 0;
  /// Takes the results in and counts. Throws Error(numerical), naming walker and position, if a loss is not finite.
  virtual PassResult finish(std::int64_t step) = 0;

  /// What places a walker, beside its canvas: epoch, index of the example, moves made, and whether it has begun one.
  using Position = std::array<std::int64_t, 4>;
  /// Extents of a walker's canvas; zeros if walkers have none.
  [[nodiscard]] virtual Vec3 canvas_shape() const noexcept = 0;
  [[nodiscard]] virtual Position position(std::int64_t slot) const = 0;
  [[nodiscard]] virtual View<const float, 3> canvas(std::int64_t slot) const = 0;
  /// Moves a walker to where it was.
  virtual void resume(std::int64_t slot, const Position& position, View<const float, 3> canvas) = 0;

 protected:
  void set_exhausted() noexcept { exhausted_ = true; }

 private:
  WalkersOptions options_;
  bool exhausted_ = false;
  Metrics metrics_;
};

}  // namespace floodtide::train
