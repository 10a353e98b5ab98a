// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/walkers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::train {
namespace {

/// Return `count` images of a batch, from image `begin` on.
template <class T, std::size_t Rank>
View<T, Rank> images_of(View<T, Rank> batch, std::int64_t begin, std::int64_t count) {
  if (batch.size() == 0) return batch;
  Shape<Rank> shape = batch.shape();
  const std::int64_t image = batch.size() / shape[0];
  shape[0] = count;
  return View<T, Rank>(batch.data() + begin * image, shape);
}

template <class T>
void copy_image(std::span<const T> from, std::span<T> batch, std::size_t number) {
  std::ranges::copy(from, batch.subspan(number * from.size(), from.size()).begin());
}

class SampleWalkers final : public Walkers {
 public:
  SampleWalkers(nn::SampleNetwork& network, const data::PatchSource& samples, const WalkersOptions& options,
                const nn::SegmentationLoss& loss)
      : Walkers(network, options), network_(network), samples_(samples), loss_(loss) {
    nn::check(loss);
    const data::Targets& truth = samples.targets();
    const Vec3& size = samples.options().patch;
    FLOODTIDE_REQUIRE(samples.order().options().walkers == options.walkers, invalid_argument,
                      "train: the samples are dealt to ", samples.order().options().walkers, " walkers, expected ",
                      options.walkers);
    FLOODTIDE_REQUIRE(network.in_channels() == samples.channels(), shape_mismatch, "train: the network reads ",
                      network.in_channels(), " channels, samples have ", samples.channels());
    FLOODTIDE_REQUIRE(truth.outputs() == network.outputs(), shape_mismatch, "train: samples have ", truth.outputs(),
                      " classes or targets, the network predicts ", network.outputs());
    FLOODTIDE_REQUIRE(truth.classes() == (network.output() == nn::Output::softmax), invalid_argument, "train: samples have ",
                      truth.classes() ? "classes" : "targets", ", the network's output is ", name(network.output()));
    const Vec3 pool = network.total_pool();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      FLOODTIDE_REQUIRE(
          size[axis] % pool[axis] == 0, shape_mismatch, "train: samples of ", Show{size}, " (z, y, x), expected multiples of ",
          Show{pool}, ", the product of all pools (model.pools)",
          size[0] == 1 && pool[0] > 1 ? "; for single sections, give pools and kernels (model.kernels) of 1 along z" : "");
    }
    const auto [z, y, x] = size;
    const std::int64_t n = local() * batch();
    images_ = Tensor<float, 5>({n, z, y, x, samples.channels()});
    if (truth.classes()) {
      classes_ = Tensor<std::uint8_t, 4>({n, z, y, x});
    } else {
      targets_ = Tensor<float, 5>({n, z, y, x, truth.outputs()});
      weights_ = Tensor<float, 5>(targets_.shape());
    }
    examples_.resize(static_cast<std::size_t>(n));
    for (std::int64_t slot = 0; slot < local(); ++slot) cursors_.push_back(samples.order().at_step(number(slot), 0));
  }

  [[nodiscard]] std::int64_t examples_per_pass() const noexcept override { return samples_.order().global_batch(); }
  [[nodiscard]] std::int64_t sums_per_pass() const noexcept override { return network_.sums_per_pass(loss_); }
  [[nodiscard]] std::int64_t longest_sum() const noexcept override { return network_.longest_sum(); }

  void start_prefetcher() override {
    prefetcher_.reset();  // end the old prefetcher before the new one starts
    prefetcher_ = std::make_unique<data::SamplePrefetcher>(samples_, cursors_, options().prefetch * static_cast<int>(batch()),
                                                           options().readers);
  }

  std::int64_t prepare() override {
    FLOODTIDE_REQUIRE(prefetcher_, unsupported, "train: no examples are read, the system has refused the threads");
    prepared_ = 0;
    // A step may begin in one epoch and end in the next. It belongs to the epoch in which it begins, which is the same for all
    // walkers.
    if (!options().cycle && cursors_.front().epoch >= options().epochs) {
      set_exhausted();
      return 0;
    }
    const ScopedTimer timer(metrics().data_s);
    std::size_t number = 0;
    for (std::int64_t slot = 0; slot < local(); ++slot) {
      for (std::int64_t i = 0; i < batch(); ++i) take(prefetcher_->next(slot), number++);
      cursors_[static_cast<std::size_t>(slot)] = prefetcher_->cursor(slot);
    }
    metrics().examples += std::ssize(examples_);
    prepared_ = local();
    return prepared_;
  }

  void compute(std::span<float> gradients, double scale, const nn::OnReady& on_ready, const nn::SumOverRanks& sum) override {
    if (prepared_ == 0) return;  // all ranks return here in the same step, because epochs end in the same step for all walkers
    const ScopedTimer timer(metrics().compute_s);
    report_ = network_.loss_and_gradients(batch_of(0, prepared_), loss_, gradients, scale, on_ready, sum);
  }

  void compute_each(std::span<float> out_gradients, double scale) override {
    FLOODTIDE_REQUIRE(sums_per_pass() == 0, unsupported,
                      "train: a loss over the global batch has no gradients of single walkers");
    const ScopedTimer timer(metrics().compute_s);
    const auto length = static_cast<std::size_t>(layout().size());
    std::ranges::fill(out_gradients, 0.0F);
    report_ = {};
    for (std::int64_t walker = 0; walker < prepared_; ++walker) {
      const std::span<float> gradients = out_gradients.subspan(static_cast<std::size_t>(walker) * length, length);
      const nn::LossReport own = network_.loss_and_gradients(batch_of(walker, 1), loss_, gradients, scale);
      report_.loss += own.loss;
      for (std::size_t k = 0; k < report_.counts.size(); ++k) report_.counts[k].add(own.counts[k]);
    }
  }

  PassResult finish(std::int64_t step) override {
    if (prepared_ == 0) return {};
    if (!std::isfinite(report_.loss)) {
      raise(ErrorCode::numerical, "train: the loss is ", report_.loss, " at step ", step, ", walkers ", number(0), " to ",
            number(local() - 1), " of rank ", options().rank);
    }
    const PassResult result{prepared_ * batch(), report_.loss};
    count();
    metrics().fovs += result.examples;
    metrics().loss_sum += result.loss_sum;
    return result;
  }

  [[nodiscard]] Position position(std::int64_t slot) const override {
    const data::Cursor& cursor = cursors_.at(static_cast<std::size_t>(slot));
    return {cursor.epoch, cursor.index, 0, 1};
  }

  [[nodiscard]] std::function<void()> resumption(std::span<const State> states) override {
    std::vector<data::Cursor> cursors;
    for (std::int64_t slot = 0; slot < local(); ++slot) {
      const Position& position = states[static_cast<std::size_t>(slot)].position;
      const std::int64_t count = samples_.order().per_walker(number(slot), position[0]);
      FLOODTIDE_REQUIRE(position[1] >= 0 && position[1] <= count, out_of_range, "walker ", number(slot), ": sample ",
                        position[1], " of epoch ", position[0], ", the walker has ", count);
      cursors.push_back({number(slot), position[0], position[1]});
    }
    return [this, cursors = std::move(cursors)] { cursors_ = cursors; };
  }

 private:
  [[nodiscard]] std::int64_t batch() const noexcept { return samples_.order().options().batch; }

  void take(const data::Sample& sample, std::size_t number) {
    copy_image<float>(sample.image.span(), images_.span(), number);
    if (classes_.size() > 0) {
      copy_image<std::uint8_t>(sample.classes.span(), classes_.span(), number);
    } else {
      copy_image<float>(sample.targets.span(), targets_.span(), number);
      copy_image<float>(sample.weights.span(), weights_.span(), number);
    }
    const data::Cursor& cursor = sample.cursor;
    examples_[number] = stream_id(static_cast<std::uint64_t>(cursor.walker), static_cast<std::uint64_t>(cursor.epoch),
                                  static_cast<std::uint64_t>(cursor.index));
  }

  /// Return the examples of `count` prepared walkers, from walker `first` on.
  [[nodiscard]] nn::SampleBatch batch_of(std::int64_t first, std::int64_t count) {
    const std::int64_t begin = first * batch(), images = count * batch();
    nn::SampleBatch result;
    result.images = images_of(std::as_const(images_).view(), begin, images);
    result.truth = {images_of(std::as_const(classes_).view(), begin, images),
                    images_of(std::as_const(targets_).view(), begin, images),
                    images_of(std::as_const(weights_).view(), begin, images)};
    result.groups = static_cast<int>(count);
    result.examples = std::span(examples_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(images));
    return result;
  }

  void count() {
    // Counted are all classes but the background (class 0), or all channels whose targets are 0 or 1. Voxels without truth do
    // not count. All images can be counted here, because a pass has the samples of all walkers.
    const bool classes = samples_.targets().classes();
    const std::int64_t outputs = samples_.targets().outputs(), soft_from = samples_.targets().soft_from();
    std::int64_t positive = 0;
    for (std::int64_t k = classes ? 1 : 0; k < soft_from; ++k) {
      const nn::ClassCounts& counts = report_.counts[static_cast<std::size_t>(k)];
      metrics().true_positive += std::llround(counts.true_positives);
      metrics().false_positive += std::llround(counts.false_positives);
      metrics().false_negative += std::llround(counts.false_negatives);
      positive += std::llround(counts.true_positives + counts.false_positives + counts.false_negatives);
    }
    std::int64_t all = 0;
    if (classes) {
      const auto known = std::ranges::count_if(classes_.span(), [](std::uint8_t c) { return c != data::kUnlabelled; });
      all = (soft_from - 1) * known;
    } else {
      for (std::int64_t i = 0; i < weights_.size(); ++i) {
        if (i % outputs < soft_from && weights_.data()[i] > 0) ++all;
      }
    }
    metrics().true_negative += all - positive;
  }

  nn::SampleNetwork& network_;
  const data::PatchSource& samples_;
  nn::SegmentationLoss loss_;
  std::vector<data::Cursor> cursors_;  // next sample of each walker
  std::unique_ptr<data::SamplePrefetcher> prefetcher_;
  Tensor<float, 5> images_, targets_, weights_;
  Tensor<std::uint8_t, 4> classes_;
  std::vector<std::uint64_t> examples_;  // number of each example, for the random numbers of dropout
  std::int64_t prepared_ = 0;            // number of walkers that have samples now
  nn::LossReport report_;
};

}  // namespace

std::unique_ptr<Walkers> make_sample_walkers(nn::SampleNetwork& network, const data::PatchSource& samples,
                                             const WalkersOptions& options, const nn::SegmentationLoss& loss) {
  return std::make_unique<SampleWalkers>(network, samples, options, loss);
}

}  // namespace floodtide::train
