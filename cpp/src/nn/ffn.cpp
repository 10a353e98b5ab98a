// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/ffn.hpp"

#include <cmath>
#include <shared_mutex>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/nn/limits.hpp"
#include "nn/ffn_plan.hpp"
#include "nn/pool.hpp"

namespace floodtide::nn {
namespace {

using kernels::Passes;

constexpr std::uint64_t kInitialWeights = 0x1417;  // purpose of the random stream

void check_shapes(const char* what, const Shape<3>& expected, const Shape<3>& shape) {
  FLOODTIDE_REQUIRE(shape == expected, shape_mismatch, "ffn: ", what, " has shape ", Show{shape}, ", expected the image's ",
                    Show{expected});
}

void check_example(const FfnExample& example, const Shape<3>& expected) {
  FLOODTIDE_REQUIRE(!example.image.empty(), shape_mismatch, "ffn: image has shape ", Show{example.image.shape()},
                    ", expected at least one voxel");
  FLOODTIDE_REQUIRE(example.image.shape() == expected, shape_mismatch, "ffn: an image has shape ", Show{example.image.shape()},
                    ", expected the batch's ", Show{expected});
  check_shapes("logits", example.image.shape(), example.logits.shape());
  check_shapes("output", example.image.shape(), example.out_logits.shape());
}

void check_training(std::span<const FfnExample> batch) {
  for (const FfnExample& example : batch) {
    check_example(example, batch[0].image.shape());
    check_shapes("labels", example.image.shape(), example.labels.shape());
    if (!example.weights.empty()) check_shapes("weights", example.image.shape(), example.weights.shape());
  }
}

/// Set all weights to uniform numbers in +-sqrt(6 / (taps * (in + out))). Biases stay 0.
///
/// Weights are the arrays with at least two axes, [..., in, out]. Each array has its own random stream, so that its values do
/// not depend on other arrays.
/// Source: Glorot and Bengio, AISTATS 2010, eq. 16; the defaults of google/ffn's layers.
void initialise(const ParameterLayout& layout, std::uint64_t seed, std::span<float> out_parameters) {
  std::uint64_t number = 0;
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    Philox random(seed, stream_id(kInitialWeights, number++));
    if (entry.shape.size() < 2) continue;
    const std::int64_t in = entry.shape[entry.shape.size() - 2], out = entry.shape.back();
    const double taps = static_cast<double>(entry.size / (in * out));
    const double limit = std::sqrt(6.0 / (taps * static_cast<double>(in + out)));
    for (float& value : part(out_parameters, entry)) value = static_cast<float>(limit * (2 * random.uniform() - 1));
  }
}

}  // namespace

ParameterLayout parameter_layout(const FfnOptions& options) {
  require_valid(options);
  ParameterLayout layout;
  const std::int64_t features = options.features;
  for (int module = 0; module < options.depth; ++module) {
    for (const char* half : {"a", "b"}) {
      const std::string scope = str_cat("seed_update/conv", module, "_", half);
      const std::int64_t in = module == 0 && *half == 'a' ? 2 : features;
      layout.add(scope + "/weights", {3, 3, 3, in, features});
      layout.add(scope + "/biases", {features});
    }
  }
  layout.add("seed_update/conv_lom/weights", {1, 1, 1, features, 1});
  layout.add("seed_update/conv_lom/biases", {1});
  return layout;
}

std::size_t training_bytes(const FfnOptions& options, const Vec3& size, std::int64_t examples, int threads) {
  return FfnPlan::training_bytes(options, size, examples, threads, parameter_layout(options).size());
}

struct Ffn::Impl {
  /// What a plan is for. Threads share a plan if its weights are those of the newest parameters, for the same passes.
  struct PlanKey {
    Vec3 size{};
    std::optional<Forward> forward = {};
    std::uint64_t version = 0;
    bool for_forward = false, for_training = false;

    [[nodiscard]] bool is_for(Passes passes) const noexcept { return passes == Passes::all ? for_training : for_forward; }
  };
  struct SharedPlan {
    std::shared_mutex mutex;  // a pass holds it shared; whoever prepares weights holds it alone
    std::optional<FfnPlan> plan;

    [[nodiscard]] static std::size_t bytes() noexcept { return 0; }  // workspace_bytes() is without weights
  };
  struct MemoryKey {
    Vec3 size{};
    bool for_training = false;
  };
  struct Memory {
    FfnPlan::Lanes lanes;

    [[nodiscard]] std::size_t bytes() const noexcept { return FfnPlan::bytes(lanes); }
  };

  Ffn& network;
  FfnOptions options;
  ParameterLayout layout;
  Pool<PlanKey, SharedPlan> plans = {};
  Pool<MemoryKey, Memory> memory = {};

  /// Calls body(plan, lanes) with a plan for this image size and the newest parameters, and with memory.
  template <class Body>
  void pass(const Vec3& size, Passes passes, std::optional<Forward> forward, NetworkUse::Calls calls, Body body) {
    const NetworkUse::Hold reading = network.use().read(calls);
    const std::uint64_t version = network.use().version();
    const bool training = passes == Passes::all;
    const auto lanes = memory.take(
        // Memory of training passes is larger.
        [&](const MemoryKey& key, int users) {
          return key.size != size || users > 0 ? 0 : key.for_training == training ? 2 : 1;
        },
        [&](MemoryKey& key) { key = {size, key.for_training || training}; });
    const auto shared = take_plan(version, size, passes, forward);
    std::shared_lock lock(shared->mutex);
    if (!shared->plan || !shared->plan->is_ready(version, passes)) {
      lock.unlock();
      prepare(*shared, version, size, passes, forward);
      lock.lock();
    }
    body(std::as_const(*shared->plan), lanes->lanes);
  }

  Pool<PlanKey, SharedPlan>::Lease take_plan(std::uint64_t version, const Vec3& size, Passes passes,
                                             std::optional<Forward> forward) {
    return plans.take(
        [&](const PlanKey& key, int users) {
          if (key.size != size || (passes == Passes::forward && key.forward != forward)) return 0;
          if (key.version == version && key.is_for(passes)) return 2;
          return users == 0 ? 1 : 0;
        },
        [&](PlanKey& key) {
          if (key.size != size) key = {size, forward};
          if (key.version != version) key.for_forward = key.for_training = false;
          key.version = version;
          (passes == Passes::all ? key.for_training : key.for_forward) = true;
        });
  }

  void prepare(SharedPlan& shared, std::uint64_t version, const Vec3& size, Passes passes, std::optional<Forward> forward) {
    const std::unique_lock alone(shared.mutex);
    if (!shared.plan) {
      const bool possible = FfnPlan::fft_unsupported(size, options).empty();
      shared.plan.emplace(size, options, possible ? forward : Forward::layers);
      network.set_kernel_names(shared.plan->kernel_names());
    }
    shared.plan->prepare(version, layout, network.parameters(), passes);
  }
};

Ffn::Ffn(const FfnOptions& options, Initial initial)
    : Network(parameter_layout(options).size()), impl_(std::make_unique<Impl>(*this, options, parameter_layout(options))) {
  if (options.compute == kernels::Compute::bf16) {
    const std::string reason = FfnPlan::bf16_unsupported(options);
    FLOODTIDE_REQUIRE(reason.empty(), unsupported, "ffn: compute is bf16: ", reason, "; choose fp32");
  }
  if (initial == Initial::random) initialise(layout(), options.seed, parameters());
}
Ffn::~Ffn() = default;

const FfnOptions& Ffn::options() const noexcept { return impl_->options; }
std::string Ffn::summary() const {
  return str_cat("a flood-filling network of depth ", options().depth, " with ", options().features, " features");
}
const ParameterLayout& Ffn::layout() const noexcept { return impl_->layout; }

std::string Ffn::fft_unsupported(const Vec3& size) const { return FfnPlan::fft_unsupported(size, impl_->options); }

void Ffn::forward(std::span<const FfnExample> batch, std::optional<Forward> forward) {
  for (const FfnExample& example : batch) check_example(example, batch[0].image.shape());
  if (batch.empty()) return;
  impl_->pass(batch[0].image.shape(), Passes::forward, forward, NetworkUse::Calls::none,
              [&](const FfnPlan& plan, FfnPlan::Lanes& lanes) { plan.forward(lanes, batch); });
}

void Ffn::loss_and_gradients(std::span<FfnExample> batch, std::span<float> gradients, double scale, const OnReady& on_ready) {
  check_training(batch);
  FLOODTIDE_REQUIRE(std::ssize(gradients) == layout().size(), shape_mismatch, "ffn: room for ", gradients.size(),
                    " gradients, expected ", layout().size());
  if (batch.empty()) return;
  impl_->pass(batch[0].image.shape(), Passes::all, {}, on_ready ? NetworkUse::Calls::caller : NetworkUse::Calls::none,
              [&](const FfnPlan& plan, FfnPlan::Lanes& lanes) {
                plan.loss_and_gradients(lanes, batch, layout(), gradients, scale, on_ready);
              });
}

void Ffn::loss_and_each_gradients(std::span<FfnExample> batch, std::span<float> out_gradients, double scale) {
  check_training(batch);
  FLOODTIDE_REQUIRE(std::ssize(out_gradients) == std::ssize(batch) * layout().size(), shape_mismatch, "ffn: room for ",
                    out_gradients.size(), " gradients, expected ", layout().size(), " for each of ", batch.size(), " examples");
  if (batch.empty()) return;
  impl_->pass(batch[0].image.shape(), Passes::all, {}, NetworkUse::Calls::none,
              [&](const FfnPlan& plan, FfnPlan::Lanes& lanes) {
                plan.loss_and_each_gradients(lanes, batch, layout(), out_gradients, scale);
              });
}

Tensor<std::uint8_t, 5> Ffn::relu_masks() const {
  std::optional<Tensor<std::uint8_t, 5>> masks;
  impl_->memory.with_last([&](const Impl::MemoryKey& key, const Impl::Memory& memory) {
    if (memory.lanes.empty() || !memory.lanes.front().trained) return;
    masks = FfnPlan::relu_masks(key.size, options(), memory.lanes.front());
  });
  FLOODTIDE_REQUIRE(masks, invalid_argument, "ffn: ReLU masks are those of loss_and_gradients, which was not the last pass");
  return std::move(*masks);
}

std::size_t Ffn::workspace_bytes() const noexcept { return impl_->memory.bytes(); }

std::string Ffn::kernel_names() const {
  if (std::string names = Network::kernel_names(); !names.empty()) return names;
  FfnOptions shallow = options();
  shallow.depth = 1;
  return FfnPlan(shallow.fov, shallow, {}).kernel_names();
}

}  // namespace floodtide::nn
