// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/segmentation_scores.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <span>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/data/slices.hpp"
#include "floodtide/nn/segmentation_loss.hpp"

namespace floodtide::train {
namespace {

static_assert(nn::kNotCounted == data::kUnlabelled);

constexpr double kSmallestProbability =
    1e-7;  // about the rounding error of a float; limits the cross-entropy of a pixel to 16 nats

/// Sums of one sample: cross-entropy in nats, and the number of pixels that count.
struct EntropySums {
  double cross_entropy = 0;
  double counted = 0;
};

EntropySums cross_entropy(View<const float, 4> probabilities, View<const std::uint8_t, 3> classes) {
  const std::int64_t outputs = probabilities.shape(3);
  EntropySums sums;
  for (std::int64_t i = 0; i < classes.size(); ++i) {
    if (classes.data()[i] == nn::kNotCounted) continue;
    sums.counted += 1;
    const double p = probabilities.data()[i * outputs + classes.data()[i]];
    sums.cross_entropy -= std::log(std::max(p, kSmallestProbability));
  }
  return sums;
}

class Scorer {
 public:
  Scorer(nn::UNet& network, const data::SampleFormat& format, SampleScores& scores) : network_(network), scores_(scores) {
    const auto [z, y, x] = format.shape;
    probabilities_ = Tensor<float, 5>({1, z, y, x, format.outputs});
    predicted_ = Tensor<std::uint8_t, 3>(format.shape);
  }

  EntropySums add(const data::Sample& sample) {
    const Shape<4> one = sample.image.shape();
    const Shape<5> images = {1, one[0], one[1], one[2], one[3]};
    network_.forward(View<const float, 5>(sample.image.data(), images), probabilities_.view());
    const Shape<5>& shape = probabilities_.shape();
    const View<const float, 4> probabilities(probabilities_.data(), {shape[1], shape[2], shape[3], shape[4]});
    if (sample.classes.size() > 0) {
      evaluate::most_likely_classes(probabilities, predicted_.view());
      scores_.dice.add(sample.group, predicted_.view(), sample.classes.view());
      return cross_entropy(probabilities, sample.classes.view());
    }
    EntropySums sums;
    for (std::int64_t channel = 0; channel < shape[4]; ++channel) {
      evaluate::VoxelCounts own;
      sums.cross_entropy += own.add_probabilities(probabilities, sample.targets.view(), sample.weights.view(), channel);
      sums.counted += static_cast<double>(own.voxels());
      scores_.affinities[static_cast<std::size_t>(channel)].merge(own);
    }
    return sums;
  }

 private:
  nn::UNet& network_;
  SampleScores& scores_;
  Tensor<float, 5> probabilities_;
  Tensor<std::uint8_t, 3> predicted_;
};

template <class Counts>
void reduce(comm::Communicator& communicator, Counts& counts) {
  std::vector<std::int64_t> values(counts.values().begin(), counts.values().end());
  comm::allreduce(communicator, std::span(values), comm::ReduceOp::sum);
  counts.assign(values);
}

}  // namespace

SampleScores score_segmentation(nn::UNet& network, const data::SampleSource& samples, comm::Communicator& communicator,
                                const Progress& progress) {
  const data::SampleFormat& format = samples.format();
  const std::int64_t count = samples.fixed_size();
  FLOODTIDE_REQUIRE(count > 0, invalid_argument, "validation: there are no samples, expected at least one");
  SampleScores scores{evaluate::DiceCounts(samples.groups(), format.outputs), {}, 0, count};
  if (!format.labelled) scores.affinities.resize(static_cast<std::size_t>(format.outputs));
  // One rank computes each sample, and the other ranks add zeros. The sums over ranks are therefore exact.
  std::vector<double> sums(2 * static_cast<std::size_t>(count), 0.0);
  std::exception_ptr failure;
  try {
    network.parameters_changed();  // the caller may have written to them
    const nn::SameParameters same(network.use());
    Scorer scorer(network, format, scores);
    for (std::int64_t i = communicator.rank(); i < count; i += communicator.size()) {
      const EntropySums own = scorer.add(samples.fixed(i));
      same.require("validation");
      sums[2 * static_cast<std::size_t>(i)] = own.cross_entropy;
      sums[2 * static_cast<std::size_t>(i) + 1] = own.counted;
      report(progress, i + 1, count);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  comm::agree(communicator, failure);
  comm::allreduce(communicator, std::span(sums), comm::ReduceOp::sum);
  reduce(communicator, scores.dice);
  for (evaluate::VoxelCounts& channel : scores.affinities) reduce(communicator, channel);
  double total = 0, counted = 0;
  for (std::size_t i = 0; i < sums.size(); i += 2) {
    total += sums[i];
    counted += sums[i + 1];
  }
  scores.cross_entropy = counted > 0 ? total / counted : 0;
  return scores;
}

}  // namespace floodtide::train
