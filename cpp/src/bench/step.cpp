// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/step.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/nn/forward_choice.hpp"

namespace floodtide::bench {
namespace {

constexpr float kClip = 0.7F;  // google/ffn's default
constexpr double kLr = 1e-3;
constexpr float kPad = -2.944439F;  // logit of 0.05
constexpr float kOn = 0.95F, kOff = 0.05F;

/// Return one example of an array [batch, z, y, x].
template <class T, class Array>
View<T, 3> example_of(Array& array, std::int64_t example) {
  const Shape<4>& shape = array.shape();
  return {array.data() + example * shape[1] * shape[2] * shape[3], {shape[1], shape[2], shape[3]}};
}

/// Compares the gradient with a central difference of the loss along the gradient, on a small field of view. Throws
/// Error(internal) if they differ.
void check_gradient(nn::FfnOptions options) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    options.fov[axis] = std::min<std::int64_t>(options.fov[axis], 9);
    options.deltas[axis] = 0;
  }
  nn::Ffn network(options);
  Tensor<float, 3> image(options.fov), logits(options.fov), labels(options.fov);
  Philox random(2, 0);
  for (float& value : image.span()) value = static_cast<float>(random.normal());
  for (float& value : labels.span()) value = random.uniform() < 0.5 ? kOn : kOff;
  std::vector<float> gradients(network.parameters().size()), unused(gradients.size());
  const auto loss = [&](std::vector<float>& out) {
    Tensor<float, 3> updated(options.fov);
    nn::FfnExample example{image.view(), logits.view(), updated.view(), labels.view(), {}};
    network.loss_and_gradients({&example, 1}, out, 1);
    return example.loss;
  };
  static_cast<void>(loss(gradients));
  double square = 0;
  for (const float gradient : gradients) square += double{gradient} * double{gradient};
  const std::vector<float> start(network.parameters().begin(), network.parameters().end());
  constexpr double kChange = 1e-3;  // change of the loss: far above its rounding error of about 1e-7, and far below the loss
  const auto loss_at = [&](double sign) {
    const double t = sign * kChange / square;
    for (std::size_t i = 0; i < start.size(); ++i) {
      network.parameters()[i] = static_cast<float>(double{start[i]} + t * double{gradients[i]});
    }
    network.parameters_changed();
    return loss(unused);
  };
  const double ratio = (loss_at(1) - loss_at(-1)) / (2 * kChange);
  FLOODTIDE_REQUIRE(std::abs(ratio - 1) < 0.05, internal, "bench step: along the gradient the loss changes ", ratio,
                    " times as much as the gradient says");
}

}  // namespace

NetworkPasses::NetworkPasses(const nn::FfnOptions& options, std::int64_t batch) : network_(options) {
  FLOODTIDE_REQUIRE(batch >= 1, invalid_argument, "bench step: the batch is ", batch, ", expected at least 1");
  check_gradient(options);
  const Vec3& fov = options.fov;
  optimizer_ = optim::make_optimizer("adam", {}, network_.layout());
  images_ = Tensor<float, 4>({batch, fov[0], fov[1], fov[2]});
  seeds_ = Tensor<float, 4>(images_.shape());
  labels_ = Tensor<float, 4>(images_.shape());
  logits_ = Tensor<float, 4>(images_.shape());
  gradients_.resize(network_.parameters().size());
  Philox random(1, 0);
  for (float& value : images_.span()) value = static_cast<float>(random.normal());
  for (float& value : labels_.span()) value = random.uniform() < 0.4 ? kOn : kOff;
  std::ranges::fill(seeds_.span(), kPad);
  for (std::int64_t i = 0; i < batch; ++i) {
    example_of<float>(seeds_, i)(fov[0] / 2, fov[1] / 2, fov[2] / 2) = -kPad;
    examples_.push_back({example_of<const float>(images_, i),
                         example_of<const float>(seeds_, i),
                         example_of<float>(logits_, i),
                         example_of<const float>(labels_, i),
                         {}});
  }
}

double NetworkPasses::step() {
  const auto batch = static_cast<double>(examples_.size());
  std::ranges::fill(gradients_, 0.0F);
  network_.loss_and_gradients(examples_, gradients_, 1.0 / batch);
  double loss = 0;
  for (const nn::FfnExample& example : examples_) loss += example.loss;
  const nn::NetworkUse::Hold change = network_.use().change();
  optimizer_->step(network_.parameters(), gradients_, {.lr = kLr, .clip = kClip});
  return loss / batch;
}

void NetworkPasses::forward() { network_.forward(examples_, forward_); }

nn::Forward NetworkPasses::use_fastest_forward() {
  forward_ = nn::fastest_forward(network_.options()).forward;
  return *forward_;
}

double NetworkPasses::step_flops() const noexcept {
  return static_cast<double>(examples_.size()) * network_.step_flops(network_.options().fov);
}

double NetworkPasses::forward_flops() const noexcept {
  return static_cast<double>(examples_.size()) * network_.forward_flops(network_.options().fov);
}

}  // namespace floodtide::bench
