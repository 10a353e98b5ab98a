// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/unet.hpp"

#include <algorithm>
#include <optional>

#include "floodtide/base/error.hpp"
#include "floodtide/nn/limits.hpp"
#include "nn/loss_pass.hpp"
#include "nn/pool.hpp"
#include "nn/unet_layout.hpp"
#include "nn/unet_plan.hpp"

namespace floodtide::nn {
namespace {

using kernels::Passes;

void check_images(const UNetOptions& options, View<const float, 5> images) {
  FLOODTIDE_REQUIRE(!images.empty() && images.shape(4) == options.in_channels, shape_mismatch, "unet: images have shape ",
                    Show{images.shape()}, ", expected (n, z, y, x, ", options.in_channels, ") with voxels");
}

Shape<5> output_shape(const UNetOptions& options, View<const float, 5> images) {
  return {images.shape(0), images.shape(1), images.shape(2), images.shape(3), options.classes};
}

Vec3 size_of(View<const float, 5> images) { return {images.shape(1), images.shape(2), images.shape(3)}; }

void check_batch(const UNetOptions& options, const SampleBatch& batch) {
  check_images(options, batch.images);
  const Vec3 pool = total_pool(options), size = size_of(batch.images);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    FLOODTIDE_REQUIRE(size[axis] % pool[axis] == 0, shape_mismatch, "unet: training images have size ", Show{size},
                      ", expected multiples of ", Show{pool}, ", the product of all pools");
  }
  const Shape<5> shape = output_shape(options, batch.images);
  check_truth("unet", options.output, shape, batch.truth);
  FLOODTIDE_REQUIRE(batch.out_probabilities.empty() || batch.out_probabilities.shape() == shape, shape_mismatch,
                    "unet: room for probabilities of shape ", Show{batch.out_probabilities.shape()}, ", expected ",
                    Show{shape});
  FLOODTIDE_REQUIRE(batch.groups >= 1 && shape[0] % batch.groups == 0, shape_mismatch, "unet: ", shape[0], " images in ",
                    batch.groups, " groups, expected equal groups");
  FLOODTIDE_REQUIRE(options.dropout == 0 || std::ssize(batch.examples) == shape[0], invalid_argument,
                    "unet: ", batch.examples.size(), " numbers of examples for dropout, expected one for each of ", shape[0],
                    " images");
}

constexpr std::int64_t kMostVoxels = std::int64_t{1} << 36;  // of a batch: with 16 channels, one activation takes 4 TiB

std::size_t planned_bytes(const UNetOptions& options, std::int64_t n, const Vec3& size, Passes passes) {
  require_valid(options);
  double voxels = static_cast<double>(n);
  for (const std::int64_t extent : size) voxels *= static_cast<double>(extent);
  FLOODTIDE_REQUIRE(n > 0 && voxels > 0 && voxels <= static_cast<double>(kMostVoxels), invalid_argument, "unet: ", n,
                    " images of ", Show{size}, " voxels at once, expected 1 to ", kMostVoxels, " voxels");
  return UNetPlan::bytes_of(n, size, passes, options);
}

}  // namespace

struct UNet::Impl {
  struct Key {
    std::int64_t images = 0;
    Vec3 size{};
    int groups = 0;  // 0: for forward passes only
  };
  struct Planned {
    std::optional<UNetPlan> plan;
    std::uint64_t version = 0;    // of the parameters that the plan has; 0: none
    Passes passes = Passes::all;  // for which it has them

    [[nodiscard]] std::size_t bytes() const noexcept { return plan ? plan->bytes() : 0; }
  };

  UNet& network;
  UNetOptions options;
  UNetLayout layout;
  Pool<Key, Planned> plans = {};

  /// Calls body(plan) with a plan for `images` images of this size and the newest parameters, which no other thread uses.
  /// `groups` = 0 asks for a forward pass, for which a plan for training can be used too.
  template <class Body>
  void pass(std::int64_t images, const Vec3& size, int groups, NetworkUse::Calls calls, Body body) {
    const NetworkUse::Hold reading = network.use().read(calls);
    const std::uint64_t version = network.use().version();
    const auto lease = plans.take(
        [&](const Key& key, int users) {
          if (users > 0 || key.images != images || key.size != size) return 0;
          return key.groups == groups ? 2 : groups == 0 ? 1 : 0;
        },
        [&](Key& key) {
          if (key.images == 0) key = {images, size, groups};
        });
    if (!lease->plan) {
      lease->plan.emplace(images, size, groups, options, layout);
      network.set_kernel_names(lease->plan->kernel_names());
    }
    const Passes passes = groups > 0 ? Passes::all : Passes::forward;
    if (lease->version != version || lease->passes != passes) {
      lease->version = 0;  // if setting them fails halfway
      lease->plan->set_parameters(std::as_const(network).parameters(), passes);
      lease->version = version;
      lease->passes = passes;
    }
    body(*lease->plan);
  }
};

ParameterLayout parameter_layout(const UNetOptions& options) {
  require_valid(options);
  return UNetLayout(options).arrays;
}

std::size_t training_bytes(const UNetOptions& options, std::int64_t n, const Vec3& size) {
  return planned_bytes(options, n, size, Passes::all);
}

std::size_t forward_bytes(const UNetOptions& options, std::int64_t n, const Vec3& size) {
  return planned_bytes(options, n, size, Passes::forward);
}

UNet::UNet(const UNetOptions& options, Initial initial)
    : SampleNetwork(parameter_layout(options).size()), impl_(std::make_unique<Impl>(*this, options, UNetLayout(options))) {
  FLOODTIDE_REQUIRE(options.compute != kernels::Compute::bf16, unsupported,
                    "unet: compute is bf16, which only flood-filling networks have; choose fp32");
  if (initial == Initial::random) initialise(options, impl_->layout, parameters());
}
UNet::~UNet() = default;

const UNetOptions& UNet::options() const noexcept { return impl_->options; }
std::string UNet::summary() const {
  const UNetOptions& own = options();
  return str_cat("a U-Net of depth ", own.depth, " with ", own.features, " features, ", own.in_channels, " input channels, ",
                 own.classes, " outputs by ", name(own.output), own.batch_norm ? " and batch norm" : "");
}
Vec3 UNet::total_pool() const noexcept { return nn::total_pool(impl_->options); }
const ParameterLayout& UNet::layout() const noexcept { return impl_->layout.arrays; }
void UNet::move_statistics(std::span<const float> gradients, double images) {
  FLOODTIDE_REQUIRE(std::ssize(gradients) == layout().size(), shape_mismatch, "unet: ", gradients.size(),
                    " gradients, expected ", layout().size());
  FLOODTIDE_REQUIRE(images > 0, invalid_argument, "unet: statistics of ", images, " images, expected more than 0");
  const NetworkUse::Hold change = use().change();
  for (auto i = static_cast<std::size_t>(layout().trained_size()); i < gradients.size(); ++i) {
    float& moving = parameters()[i];
    moving = static_cast<float>(double{moving} + kStatisticsMomentum * (double{gradients[i]} / images - double{moving}));
  }
}

std::int64_t UNet::sums_per_pass(const SegmentationLoss& loss) const noexcept {
  const std::size_t blocks = impl_->layout.encoder.size() + impl_->layout.decoder.size();
  return (options().synchronised ? 2 * static_cast<std::int64_t>(blocks) : 0) + (loss.over_batch && loss.dice > 0 ? 1 : 0);
}

std::int64_t UNet::longest_sum() const noexcept {
  return std::max(2 * features_of(options(), options().depth - 1), std::int64_t{3} * options().classes) + 1;
}

void UNet::forward(View<const float, 5> images, View<float, 5> out_probabilities) {
  check_images(options(), images);
  const Shape<5> shape = output_shape(options(), images);
  FLOODTIDE_REQUIRE(out_probabilities.shape() == shape, shape_mismatch, "unet: room for probabilities of shape ",
                    Show{out_probabilities.shape()}, ", expected ", Show{shape});
  const Vec3 pool = total_pool();
  Vec3 padded = size_of(images);
  for (std::size_t axis = 0; axis < 3; ++axis) padded[axis] = (padded[axis] + pool[axis] - 1) / pool[axis] * pool[axis];
  impl_->pass(shape[0], padded, 0, NetworkUse::Calls::none, [&](UNetPlan& plan) {
    plan.forward(images);
    const View<const float, 5> probabilities = plan.probabilities();
    for (std::int64_t image = 0; image < shape[0]; ++image) {
      for (std::int64_t z = 0; z < shape[1]; ++z) {
        for (std::int64_t y = 0; y < shape[2]; ++y) {
          std::copy_n(&probabilities(image, z, y, 0, 0), shape[3] * shape[4], &out_probabilities(image, z, y, 0, 0));
        }
      }
    }
  });
}

LossReport UNet::loss_and_gradients(const SampleBatch& batch, const SegmentationLoss& loss, std::span<float> gradients,
                                    double scale, const OnReady& on_ready, const SumOverRanks& sum_over_ranks) {
  nn::check(loss);
  check_batch(options(), batch);
  FLOODTIDE_REQUIRE(std::ssize(gradients) == layout().size(), shape_mismatch, "unet: room for ", gradients.size(),
                    " gradients, expected ", layout().size());
  const auto calls = on_ready || sum_over_ranks ? NetworkUse::Calls::caller : NetworkUse::Calls::none;
  LossReport report;
  impl_->pass(batch.images.shape(0), size_of(batch.images), batch.groups, calls, [&](UNetPlan& plan) {
    report = plan.loss_and_gradients(batch, loss, gradients, scale, on_ready, sum_over_ranks);
    if (!batch.out_probabilities.empty()) std::ranges::copy(plan.probabilities().span(), batch.out_probabilities.data());
  });
  return report;
}

std::size_t UNet::workspace_bytes() const noexcept { return impl_->plans.bytes(); }

void UNet::free_workspace() { impl_->plans.clear(); }

}  // namespace floodtide::nn
