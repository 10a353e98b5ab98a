// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/scaling.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/optim/optimizer.hpp"

namespace floodtide::bench {
namespace {

constexpr double kLearningRate = 1e-3;
constexpr float kClip = 0.7F;

class FfnWorkload final : public Workload {
 public:
  FfnWorkload(const nn::FfnOptions& options, Philox& random)
      : network_(options), image_(options.fov), logits_(options.fov), labels_(options.fov), updated_(options.fov) {
    for (float& x : image_.span()) x = static_cast<float>(random.normal());
    for (float& x : labels_.span()) x = random.uniform() < 0.5 ? 0.05F : 0.95F;
    std::ranges::fill(logits_.span(), -2.944439F);
  }

  void pass(std::span<float> gradients) override {
    nn::FfnExample example{image_.view(), logits_.view(), updated_.view(), labels_.view(), {}};
    network_.loss_and_gradients({&example, 1}, gradients, 1.0);
  }
  [[nodiscard]] const ParameterLayout& layout() const noexcept override { return network_.layout(); }
  [[nodiscard]] std::span<float> parameters() noexcept override { return network_.parameters(); }
  [[nodiscard]] nn::NetworkUse& use() const noexcept override { return network_.use(); }
  [[nodiscard]] double flops() const noexcept override { return network_.step_flops(network_.options().fov); }

 private:
  nn::Ffn network_;
  Tensor<float, 3> image_, logits_, labels_, updated_;
};

class UNetWorkload final : public Workload {
 public:
  UNetWorkload(const nn::UNetOptions& options, const Vec3& size, std::int64_t batch, Philox& random)
      : network_(options), images_({batch, size[0], size[1], size[2], 1}), labels_({batch, size[0], size[1], size[2]}) {
    for (float& x : images_.span()) x = static_cast<float>(random.normal());
    for (std::uint8_t& x : labels_.span()) x = random.uniform() < 0.3 ? 1 : 0;
  }

  void pass(std::span<float> gradients) override {
    nn::UNetBatch batch{images_.view(), {labels_.view(), {}, {}}, 1, {}, {}};
    network_.loss_and_gradients(batch, {}, gradients, 1.0 / static_cast<double>(images_.shape()[0]));
  }
  [[nodiscard]] const ParameterLayout& layout() const noexcept override { return network_.layout(); }
  [[nodiscard]] std::span<float> parameters() noexcept override { return network_.parameters(); }
  [[nodiscard]] nn::NetworkUse& use() const noexcept override { return network_.use(); }
  [[nodiscard]] double flops() const noexcept override {
    const Shape<5>& shape = images_.shape();
    return static_cast<double>(shape[0]) * network_.step_flops({shape[1], shape[2], shape[3]});
  }

 private:
  nn::UNet network_;
  Tensor<float, 5> images_;
  Tensor<std::uint8_t, 4> labels_;
};

// A training step. Its result is not used.
class TrainingStep {
 public:
  TrainingStep(Workload& workload, comm::Communicator& communicator, const std::string& algorithm)
      : workload_(workload),
        optimizer_(optim::make_optimizer("adam", {}, workload.layout())),
        gradients_(workload.layout().size()),
        communicator_(communicator),
        algorithm_(algorithm) {}

  void run(bool with_others) {
    std::ranges::fill(gradients_.span(), 0.0F);
    workload_.pass(gradients_.span());
    if (with_others) comm::allreduce(communicator_, gradients_.span(), comm::ReduceOp::sum, algorithm_);
    const auto trained = static_cast<std::size_t>(workload_.layout().trained_size());
    const std::span<float> gradients = gradients_.span().first(trained);
    const nn::NetworkUse::Hold change = workload_.use().change();
    optimizer_->step(workload_.parameters().first(trained), gradients, {.lr = kLearningRate, .clip = kClip});
  }

 private:
  Workload& workload_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  AlignedBuffer<float> gradients_;
  comm::Communicator& communicator_;
  std::string algorithm_;
};

double seconds_of(const std::function<void()>& work) {
  const double start_s = now_s();
  work();
  return now_s() - start_s;
}

}  // namespace

std::unique_ptr<Workload> ffn_workload(const nn::FfnOptions& options, int rank) {
  Philox random(1, static_cast<std::uint64_t>(rank));
  return std::make_unique<FfnWorkload>(options, random);
}

std::unique_ptr<Workload> unet_workload(const nn::UNetOptions& options, const Vec3& size, std::int64_t batch, int rank) {
  Philox random(1, static_cast<std::uint64_t>(rank));
  return std::make_unique<UNetWorkload>(options, size, batch, random);
}

Scaling measure_scaling(comm::Communicator& communicator, Workload& workload, double seconds, const std::string& algorithm) {
  Scaling result;
  Peak peak(active_isa());
  TrainingStep step(workload, communicator, algorithm);
  const bool first = communicator.rank() == 0;
  step.run(false);  // warm-up, which plans the memory
  step.run(true);
  for (bool more = true; more;) {
    double times[4] = {};
    communicator.barrier();
    if (first) times[0] = seconds_of([&] { peak.sample(); });
    communicator.barrier();
    times[1] = seconds_of([&] { peak.sample(); });
    communicator.barrier();
    if (first) times[2] = seconds_of([&] { step.run(false); });
    communicator.barrier();
    times[3] = seconds_of([&] { step.run(true); });
    comm::allreduce(communicator, std::span(times), comm::ReduceOp::max);
    result.peak_alone.add(times[0]);
    result.peak_together.add(times[1]);
    result.alone.add(times[2]);
    result.together.add(times[3]);
    const double spent_s =
        result.peak_alone.total_s() + result.peak_together.total_s() + result.alone.total_s() + result.together.total_s();
    // All ranks have the same times, and therefore come to the same decision.
    more = !enough(result.alone.size(), spent_s) || result.alone.total_s() < seconds;
  }
  result.peak_flops = peak.flops();
  result.step_flops = workload.flops();
  return result;
}

}  // namespace floodtide::bench
