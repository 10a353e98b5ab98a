// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/segmentation_loss.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "nn/loss_pass.hpp"

namespace floodtide::nn {

std::span<const LossRow> loss_rows() {
  static constexpr std::array kRows = {
      LossRow{"dice", "1 - soft Dice", {.dice = 1, .cross_entropy = 0}},
      LossRow{"cross_entropy", "cross-entropy", {.dice = 0, .cross_entropy = 1}},
      LossRow{"dice+cross_entropy", "the sum of both", {.dice = 1, .cross_entropy = 1}},
      LossRow{"focal", "cross-entropy times (1 - probability of the label)^2", {.dice = 0, .cross_entropy = 1, .focus = 2}},
      LossRow{"dice+focal", "the sum of Dice and focal", {.dice = 1, .cross_entropy = 1, .focus = 2}},
  };
  return kRows;
}

void check(const SegmentationLoss& loss) {
  for (const auto& [name, number] : kLossNumbers) {
    FLOODTIDE_REQUIRE(std::isfinite(loss.*number) && loss.*number >= 0, invalid_argument, "segmentation loss: ", name, " is ",
                      loss.*number, ", expected at least 0");
  }
  FLOODTIDE_REQUIRE(loss.dice + loss.cross_entropy > 0, invalid_argument,
                    "segmentation loss: the weights of Dice and cross-entropy are 0, expected one above");
  FLOODTIDE_REQUIRE(loss.focus == 0 || loss.focus >= 1, invalid_argument, "segmentation loss: focus is ", loss.focus,
                    ", expected 0, or at least 1");
}

void check_truth(const char* who, Output output, const Shape<5>& shape, const SegmentationTruth& truth) {
  if (output == Output::softmax) {
    const Shape<4> expected{shape[0], shape[1], shape[2], shape[3]};
    FLOODTIDE_REQUIRE(truth.labels.shape() == expected, shape_mismatch, who, ": labels have shape ", Show{truth.labels.shape()},
                      ", expected ", Show{expected});
    const auto classes = static_cast<std::uint8_t>(shape[4]);
    const auto wrong =
        std::ranges::find_if(truth.labels.span(), [=](std::uint8_t label) { return label >= classes && label != kNotCounted; });
    FLOODTIDE_REQUIRE(wrong == truth.labels.span().end(), invalid_argument, who, ": there is a label ", int{*wrong},
                      ", expected 0 to ", int{classes} - 1, ", or ", int{kNotCounted}, " for voxels that do not count");
    return;
  }
  FLOODTIDE_REQUIRE(truth.targets.shape() == shape, shape_mismatch, who, ": targets have shape ", Show{truth.targets.shape()},
                    ", expected ", Show{shape});
  FLOODTIDE_REQUIRE(truth.weights.empty() || truth.weights.shape() == shape, shape_mismatch, who, ": weights have shape ",
                    Show{truth.weights.shape()}, ", expected ", Show{shape}, " or none");
}

LossReport segmentation_loss(const SegmentationLoss& loss, Output output, View<const float, 5> logits,
                             const SegmentationTruth& truth, View<float, 5> out_probabilities, View<float, 5> out_gradient,
                             const SumOverRanks& sum_over_ranks) {
  constexpr const char* who = "segmentation loss";
  check(loss);
  const Shape<5>& shape = logits.shape();
  const int least = output == Output::softmax ? 2 : 1;
  FLOODTIDE_REQUIRE(!logits.empty() && shape[4] >= least && shape[4] <= kMostClasses, shape_mismatch, who,
                    ": logits have shape ", Show{shape}, ", expected (n, z, y, x, classes) with voxels and ", least, " to ",
                    kMostClasses, " classes");
  check_truth(who, output, shape, truth);
  FLOODTIDE_REQUIRE(out_probabilities.shape() == shape && out_gradient.shape() == shape, shape_mismatch, who,
                    ": outputs have shapes ", Show{out_probabilities.shape()}, " and ", Show{out_gradient.shape()},
                    ", expected the logits' ", Show{shape});
  const std::int64_t n = shape[0], classes = shape[4], voxels = shape[1] * shape[2] * shape[3];
  std::ranges::copy(logits.span(), out_probabilities.data());
  LossPass pass(n, voxels, static_cast<int>(classes), output, std::min<std::int64_t>(voxels, 16));
  pass.begin(loss, truth, 1.0);
  const auto for_each_part = [&](auto body) {
    parallel_for(n * pass.chunks(), [&](std::int64_t part) {
      const std::int64_t image = part / pass.chunks(), chunk = part % pass.chunks();
      const Range range = chunk_range(voxels, pass.chunks(), chunk);
      body(image, chunk, range.begin, range.size(), (image * voxels + range.begin) * classes);
    });
  };
  for_each_part([&](std::int64_t image, std::int64_t chunk, std::int64_t first, std::int64_t count, std::int64_t at) {
    pass.forward(image, chunk, first, count, out_probabilities.data() + at);
  });
  const LossReport report = pass.finish(sum_over_ranks);
  for_each_part([&](std::int64_t image, std::int64_t, std::int64_t first, std::int64_t count, std::int64_t at) {
    pass.gradient(image, first, count, out_probabilities.data() + at, out_gradient.data() + at);
  });
  return report;
}

}  // namespace floodtide::nn
