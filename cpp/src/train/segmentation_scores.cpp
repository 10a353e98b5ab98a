// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/segmentation_scores.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "floodtide/base/error.hpp"
#include "train/over_ranks.hpp"

namespace floodtide::train {
namespace {

static_assert(nn::kNotCounted == data::kUnlabelled);

constexpr double kSmallestProbability =
    1e-7;  // about the rounding error of a float; limits the cross-entropy of a pixel to 16 nats

/// Sums of one sample: cross-entropy in nats, the number of voxels (and channels) that count, then those of each soft channel.
enum : std::size_t { kCrossEntropy, kCounted, kSoft };
/// Sums of a soft channel: squared errors, targets, squared targets, and the number of voxels.
enum : std::size_t { kErrors, kTargets, kSquares, kVoxels, kSoftSums };

void add_cross_entropy(View<const float, 4> probabilities, View<const std::uint8_t, 3> classes, std::span<double> sums) {
  const std::int64_t outputs = probabilities.shape(3);
  for (std::int64_t i = 0; i < classes.size(); ++i) {
    if (classes.data()[i] == nn::kNotCounted) continue;
    sums[kCounted] += 1;
    const double p = probabilities.data()[i * outputs + classes.data()[i]];
    sums[kCrossEntropy] -= std::log(std::max(p, kSmallestProbability));
  }
}

void add_errors(View<const float, 4> probabilities, const data::Sample& sample, std::int64_t channel, std::span<double> sums) {
  for (std::int64_t i = channel; i < probabilities.size(); i += probabilities.shape(3)) {
    if (sample.weights.data()[i] == 0) continue;
    const double target = sample.targets.data()[i], error = probabilities.data()[i] - target;
    sums[kErrors] += error * error;
    sums[kTargets] += target;
    sums[kSquares] += target * target;
    sums[kVoxels] += 1;
  }
}

class Scorer {
 public:
  Scorer(nn::SampleNetwork& network, const data::PatchSource& samples, SampleScores& scores)
      : network_(network), truth_(samples.targets()), scores_(scores), predicted_(samples.options().patch) {
    const auto [z, y, x] = samples.options().patch;
    probabilities_ = Tensor<float, 5>({1, z, y, x, truth_.outputs()});
  }

  void add(const data::Sample& sample, std::span<double> sums) {
    const Shape<4> one = sample.image.shape();
    const Shape<5> images = {1, one[0], one[1], one[2], one[3]};
    network_.forward(View<const float, 5>(sample.image.data(), images), probabilities_.view());
    const Shape<5>& shape = probabilities_.shape();
    const View<const float, 4> probabilities(probabilities_.data(), {shape[1], shape[2], shape[3], shape[4]});
    if (truth_.classes()) {
      evaluate::most_likely_classes(probabilities, predicted_.view());
      scores_.dice.add(sample.group, predicted_.view(), sample.classes.view());
      add_cross_entropy(probabilities, sample.classes.view(), sums);
      return;
    }
    for (std::int64_t channel = 0; channel < shape[4]; ++channel) {
      evaluate::VoxelCounts own;
      sums[kCrossEntropy] += own.add_probabilities(probabilities, sample.targets.view(), sample.weights.view(), channel);
      sums[kCounted] += static_cast<double>(own.voxels());
      const std::int64_t soft = channel - truth_.soft_from();
      if (soft < 0) {
        scores_.binary_channels[static_cast<std::size_t>(channel)].merge(own);
      } else {
        add_errors(probabilities, sample, channel, sums.subspan(kSoft + static_cast<std::size_t>(soft) * kSoftSums, kSoftSums));
      }
    }
  }

 private:
  nn::SampleNetwork& network_;
  const data::Targets& truth_;
  SampleScores& scores_;
  Tensor<float, 5> probabilities_;
  Tensor<std::uint8_t, 3> predicted_;
};

}  // namespace

SampleScores score_segmentation(nn::SampleNetwork& network, const data::PatchSource& samples, comm::Communicator& communicator,
                                const Progress& progress) {
  const data::Targets& truth = samples.targets();
  const std::int64_t count = samples.fixed_size();
  FLOODTIDE_REQUIRE(count > 0, invalid_argument, "validation: there are no samples, expected at least one");
  SampleScores scores{evaluate::DiceCounts(std::ssize(samples.groups()), truth.outputs()), {}, {}, 0, count};
  if (!truth.classes()) {
    scores.binary_channels.resize(static_cast<std::size_t>(truth.soft_from()));
    scores.soft_channels.resize(static_cast<std::size_t>(truth.outputs() - truth.soft_from()));
  }
  // One rank computes each sample, and the other ranks add zeros. The sums over ranks are therefore exact.
  const std::size_t length = kSoft + scores.soft_channels.size() * kSoftSums;
  std::vector<double> sums(length * static_cast<std::size_t>(count), 0.0);
  validate_parts(network, count, communicator, progress, [&] {
    return [&, scorer = Scorer(network, samples, scores)](std::int64_t i) mutable {
      scorer.add(samples.fixed(i), std::span(sums).subspan(static_cast<std::size_t>(i) * length, length));
    };
  });
  comm::allreduce(communicator, std::span(sums), comm::ReduceOp::sum);
  add_ranks(communicator, scores.dice);
  for (evaluate::VoxelCounts& channel : scores.binary_channels) add_ranks(communicator, channel);
  const auto mean = [&](std::size_t sum, std::size_t number) {  // over all samples, in their order
    double total = 0, counted = 0;
    for (std::size_t i = 0; i < sums.size(); i += length) {
      total += sums[i + sum];
      counted += sums[i + number];
    }
    return std::pair(counted > 0 ? total / counted : 0, counted);
  };
  scores.cross_entropy = mean(kCrossEntropy, kCounted).first;
  std::size_t own = kSoft;
  for (SoftScores& channel : scores.soft_channels) {
    const auto [error, voxels] = mean(own + kErrors, own + kVoxels);
    const double target = mean(own + kTargets, own + kVoxels).first, square = mean(own + kSquares, own + kVoxels).first;
    channel = {error, std::max(0.0, square - target * target), static_cast<std::int64_t>(voxels)};
    own += kSoftSums;
  }
  return scores;
}

}  // namespace floodtide::train
