// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/walkers.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "train/walker.hpp"

namespace floodtide::train {

namespace {

class FloodWalkers final : public Walkers {
 public:
  FloodWalkers(nn::Ffn& network, const data::ExampleSource& examples, const WalkersOptions& options, const FloodOptions& flood)
      : Walkers(network, options),
        network_(network),
        examples_(examples),
        flood_{network.options().fov, network.options().deltas, flood.seed_pad, flood.threshold} {
    for (std::int64_t slot = 0; slot < local(); ++slot) {
      walkers_.emplace_back(number(slot), flood_);
      fields_.emplace_back(network.options().fov);
    }
    prepared_.reserve(walkers_.size());
    batch_.reserve(walkers_.size());
  }

  void start_prefetcher() override {
    std::vector<data::Cursor> cursors;
    for (const Walker& walker : walkers_) cursors.push_back(walker.next_cursor(examples_));
    prefetcher_.reset();  // end the old prefetcher before the new one starts
    prefetcher_ = std::make_unique<data::Prefetcher>(examples_, std::move(cursors), options().prefetch, options().readers);
  }

  std::int64_t prepare() override {
    FLOODTIDE_REQUIRE(prefetcher_, unsupported, "train: no examples are read, the system has refused the threads");
    prepared_.clear();
    batch_.clear();
    for (std::size_t slot = 0; slot < walkers_.size(); ++slot) {
      if (prepare(slot)) prepared_.push_back(slot);
    }
    return std::ssize(prepared_);
  }

  void compute(std::span<float> gradients, double scale, const nn::OnReady& on_ready,
               const nn::SumOverRanks& /*sum*/) override {
    const ScopedTimer timer(metrics().compute_s);
    network_.loss_and_gradients(batch_, gradients, scale, on_ready);
  }

  void compute_each(std::span<float> out_gradients, double scale) override {
    const ScopedTimer timer(metrics().compute_s);
    network_.loss_and_each_gradients(batch_, out_gradients, scale);
  }

  PassResult finish(std::int64_t step) override {
    const ScopedTimer timer(metrics().compute_s);
    PassResult result;
    for (std::size_t i = 0; i < prepared_.size(); ++i) {
      Walker& walker = walkers_[prepared_[i]];
      const Field& field = fields_[prepared_[i]];
      const double loss = batch_[i].loss;
      if (!std::isfinite(loss)) {
        raise(ErrorCode::numerical, "train: the loss is ", loss, " at step ", step, ", walker ", walker.number(), ", ",
              walker.describe(field.box, examples_));
      }
      walker.update(field.box, field.logits.view());
      count(field.labels.view(), field.logits.view());
      ++result.examples;
      result.loss_sum += loss;
    }
    metrics().fovs += result.examples;
    metrics().loss_sum += result.loss_sum;
    return result;
  }

  [[nodiscard]] Vec3 canvas_shape() const noexcept override { return walkers_.front().flood().canvas().shape(); }

  [[nodiscard]] Position position(std::int64_t slot) const override {
    const Walker& walker = at(slot);
    return {walker.cursor().epoch, walker.cursor().index, walker.flood().move(), walker.active() ? 1 : 0};
  }

  [[nodiscard]] View<const float, 3> canvas(std::int64_t slot) const override { return at(slot).flood().canvas(); }

  [[nodiscard]] std::function<void()> resumption(std::span<const State> states) override {
    const auto resumed = std::make_shared<std::vector<Walker>>();
    for (std::int64_t slot = 0; slot < local(); ++slot) {
      const auto& [position, canvas] = states[static_cast<std::size_t>(slot)];
      Walker& walker = resumed->emplace_back(number(slot), flood_);
      if (position[3] == 0) continue;
      try {
        walker.resume(examples_.load({number(slot), position[0], position[1]}), options().seed, position[2], canvas.view());
      } catch (const Error& error) {
        if (error.code() != ErrorCode::out_of_range) throw;
        raise(ErrorCode::out_of_range, "walker ", number(slot), ": ", error.what());
      }
    }
    return [this, resumed] { walkers_ = std::move(*resumed); };
  }

 private:
  /// Field of view of a walker.
  struct Field {
    explicit Field(const Vec3& fov) : image(fov), logits(fov), labels(fov) {}
    Box box{};
    Tensor<float, 3> image, logits, labels;
  };

  /// Prepares the next field of view of a walker. Returns false if the walker has no more examples.
  bool prepare(std::size_t slot) {
    Walker& walker = walkers_[slot];
    Field& field = fields_[slot];
    std::optional<Box> box;
    while (!(box = walker.advance())) {
      if (!options().cycle && walker.next_cursor(examples_).epoch >= options().epochs) {
        set_exhausted();
        return false;
      }
      const ScopedTimer timer(metrics().data_s);
      walker.begin(prefetcher_->next(static_cast<std::int64_t>(slot)), options().seed);
      ++metrics().examples;
    }
    const ScopedTimer timer(metrics().compute_s);
    field.box = *box;
    walker.crop(*box, field.image.view(), field.logits.view(), field.labels.view());
    batch_.push_back({field.image.view(), field.logits.view(), field.logits.view(), field.labels.view(), {}});
    return true;
  }

  void count(View<const float, 3> truth, View<const float, 3> predicted) {
    std::int64_t counts[2][2] = {};
    for (std::int64_t i = 0; i < truth.size(); ++i) ++counts[truth.data()[i] > 0.5F][predicted.data()[i] >= 0.0F];
    metrics().true_positive += counts[1][1];
    metrics().false_positive += counts[0][1];
    metrics().false_negative += counts[1][0];
    metrics().true_negative += counts[0][0];
  }

  [[nodiscard]] const Walker& at(std::int64_t slot) const { return walkers_.at(static_cast<std::size_t>(slot)); }

  nn::Ffn& network_;
  const data::ExampleSource& examples_;
  flood::TrainingFloodOptions flood_;
  std::vector<Walker> walkers_;  // ascending
  std::unique_ptr<data::Prefetcher> prefetcher_;
  std::vector<Field> fields_;          // one per walker
  std::vector<std::size_t> prepared_;  // slots of the walkers that have a field of view now
  std::vector<nn::FfnExample> batch_;  // their fields of view
};

}  // namespace

std::unique_ptr<Walkers> make_flood_walkers(nn::Ffn& network, const data::ExampleSource& examples,
                                            const WalkersOptions& options, const FloodOptions& flood) {
  return std::make_unique<FloodWalkers>(network, examples, options, flood);
}

}  // namespace floodtide::train
