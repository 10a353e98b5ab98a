// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/scaling.hpp"

#include <algorithm>
#include <functional>
#include <span>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/optim/optimizer.hpp"

namespace floodtide::bench {
namespace {

constexpr double kLearningRate = 1e-3;
constexpr float kClip = 0.7F;

// A step on random data: it does the work of training, and its result is not looked at.
class Step {
 public:
  Step(const nn::FfnOptions& options, comm::Communicator& communicator, const std::string& algorithm)
      : network_(options),
        optimizer_(optim::make_optimizer("adam", {}, network_.layout().size())),
        gradients_(network_.layout().size()),
        image_(options.fov),
        logits_(options.fov),
        labels_(options.fov),
        updated_(options.fov),
        communicator_(communicator),
        algorithm_(algorithm) {
    Philox random(1, static_cast<std::uint64_t>(communicator.rank()));
    for (float& x : image_.span()) x = static_cast<float>(random.normal());
    for (float& x : labels_.span()) x = random.uniform() < 0.5 ? 0.05F : 0.95F;
    std::ranges::fill(logits_.span(), -2.944439F);
  }

  void run(bool with_others) {
    std::ranges::fill(gradients_.span(), 0.0F);
    nn::FfnExample example{image_.view(), logits_.view(), updated_.view(), labels_.view(), {}};
    network_.loss_and_gradients({&example, 1}, gradients_.span(), 1.0);
    if (with_others) comm::allreduce(communicator_, gradients_.span(), comm::ReduceOp::sum, algorithm_);
    optim::clip_entries(gradients_.span(), kClip);
    optimizer_->step(network_.parameters(), gradients_.span(), kLearningRate);
    network_.parameters_changed();
  }

  [[nodiscard]] double flops() const { return network_.step_flops(network_.options().fov); }

 private:
  nn::Ffn network_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  AlignedBuffer<float> gradients_;
  Tensor<float, 3> image_, logits_, labels_, updated_;
  comm::Communicator& communicator_;
  std::string algorithm_;
};

double seconds_of(const std::function<void()>& work) {
  const double start_s = now_s();
  work();
  return now_s() - start_s;
}

}  // namespace

Scaling measure_scaling(comm::Communicator& communicator, const nn::FfnOptions& options, double seconds,
                        const std::string& algorithm) {
  Scaling result;
  Peak peak(active_isa());
  Step step(options, communicator, algorithm);
  const bool first = communicator.rank() == 0;
  step.run(false);  // warm-up: plans memory
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
    more = result.alone.size() < kLeastSamples || result.alone.total_s() < seconds;  // the same on all ranks: times are
  }
  result.peak_flops = peak.flops();
  result.step_flops = step.flops();
  return result;
}

}  // namespace floodtide::bench
