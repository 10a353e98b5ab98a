// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "floodtide/data/examples.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/tensor/view.hpp"
#include "floodtide/train/metrics.hpp"
#include "train/walker.hpp"

namespace floodtide::train {

struct LocalWalkersOptions {
  std::int64_t walkers = 1;  ///< over all ranks; rank r of N owns the walkers w with w mod N = r
  int rank = 0;
  int ranks = 1;
  std::uint64_t seed = 0;
  double seed_pad = 0.05;
  double threshold = 0.9;
  int prefetch = 2;         ///< examples that each walker has ready in advance
  int readers = 1;          ///< of them read at a time
  std::int64_t epochs = 0;  ///< passes through its shard after which a walker has no more fields of view; 0: never
};

/// The walkers of one rank: cuts out their next fields of view, has the network work on them, and moves them on. Knows nothing
/// of other ranks; what it throws concerns this rank only. References must outlive it.
class LocalWalkers {
 public:
  LocalWalkers(nn::Ffn& network, const data::ExampleSource& examples, const LocalWalkersOptions& options);

  /// Reads ahead from where the walkers are. To be called first, and after they were moved by loading a checkpoint.
  void start_prefetcher();

  /// Cuts out the next field of view of every walker that has one; returns how many there are.
  std::int64_t prepare();
  /// Forward and backward of all of them: scale * the gradients' sum is added to `gradients`.
  void compute(std::span<float> gradients, double scale, const nn::OnReady& on_ready);
  /// The same, each walker's gradients apart, one after another: replaces `out_gradients` [prepared, parameters].
  void compute_each(std::span<float> out_gradients, double scale);
  /// Writes the results to the canvases and counts; returns the sum of the losses. Throws Error(numerical), naming walker and
  /// position, if one is not finite.
  double finish(std::int64_t step);

  /// True once some walker has been through its shard as often as it may.
  [[nodiscard]] bool exhausted() const noexcept { return exhausted_; }
  [[nodiscard]] std::vector<Walker>& walkers() noexcept { return walkers_; }
  [[nodiscard]] Metrics& metrics() noexcept { return metrics_; }

 private:
  /// A walker's field of view.
  struct Field {
    explicit Field(const Vec3& fov) : image(fov), logits(fov), labels(fov), weights(fov) {}
    Box box{};
    Tensor<float, 3> image, logits, labels, weights;
  };

  /// The walker's next field of view; none if it is through.
  bool prepare(std::size_t slot);
  void count(View<const float, 3> truth, View<const float, 3> predicted);

  nn::Ffn& network_;
  const data::ExampleSource& examples_;
  LocalWalkersOptions options_;
  std::vector<Walker> walkers_;  // ascending
  std::unique_ptr<data::Prefetcher> prefetcher_;
  std::vector<Field> fields_;          // one a walker
  std::vector<std::size_t> prepared_;  // slots of the walkers that have a field of view now
  std::vector<nn::FfnExample> batch_;  // theirs
  bool exhausted_ = false;
  Metrics metrics_;
};

}  // namespace floodtide::train
