// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/segmentation_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "floodtide/base/error.hpp"
#include "nn/cross_entropy.hpp"
#include "nn/grid.hpp"
#include "nn/loss_pass.hpp"

namespace floodtide::nn {
namespace {

struct Softmax {
  std::int64_t best;  ///< class with the largest logit
  float largest;      ///< the largest logit
  float total;        ///< sum of exp(logit - largest)
};

/// Turns the logits of one voxel into probabilities, in place.
Softmax softmax_of(std::int64_t classes, float* logits) noexcept {
  Softmax result{std::max_element(logits, logits + classes) - logits, 0, 0};
  result.largest = logits[result.best];
  for (std::int64_t k = 0; k < classes; ++k) result.total += logits[k] = std::exp(logits[k] - result.largest);
  for (std::int64_t k = 0; k < classes; ++k) logits[k] /= result.total;
  return result;
}

/// Focal loss of one voxel: its cross-entropy times (1 - q)^focus.
struct Focal {
  double factor;  ///< (1 - q)^focus
  double slope;   ///< -d factor / d q
};
Focal focal(double focus, double q) noexcept {
  const double missed = std::max(1 - q, 0.0);
  return {std::pow(missed, focus), focus * std::pow(missed, focus - 1)};
}

/// Probability that a sigmoid p gives to a target in [0, 1].
double of_target(double p, double target) noexcept { return p * target + (1 - p) * (1 - target); }

/// -log of a probability that may have become 0.
double surprise(double p) noexcept { return -std::log(std::max(p, double{std::numeric_limits<float>::min()})); }

}  // namespace

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
  for (const auto& [name, number] : {std::pair{"dice", loss.dice}, std::pair{"cross_entropy", loss.cross_entropy},
                                     std::pair{"smooth", loss.smooth}, std::pair{"focus", loss.focus}}) {
    FLOODTIDE_REQUIRE(std::isfinite(number) && number >= 0, invalid_argument, "segmentation loss: ", name, " is ", number,
                      ", expected at least 0");
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

void to_probabilities(Output output, std::int64_t classes, std::int64_t count, float* logits) noexcept {
  if (output == Output::softmax) {
    for (std::int64_t i = 0; i < count; ++i) softmax_of(classes, logits + i * classes);
  } else {
    for (std::int64_t i = 0; i < count * classes; ++i) {
      logits[i] = static_cast<float>(cross_entropy(double{logits[i]}, 0.0).probability);
    }
  }
}

void LossPass::begin(const SegmentationLoss& loss, const SegmentationTruth& truth, double scale) {
  loss_ = loss;
  truth_ = truth;
  scale_ = scale;
  std::ranges::fill(sums_.span(), 0.0);
}

void LossPass::forward(std::int64_t image, std::int64_t chunk, std::int64_t first, std::int64_t count, float* logits) {
  double* const sums = sums_.data() + (image * chunks_ + chunk) * sums_each();
  if (output_ == Output::softmax) {
    softmax(truth_.labels.data() + first, count, logits, sums);
  } else {
    sigmoid(truth_.targets.data() + first * classes_,
            truth_.weights.empty() ? nullptr : truth_.weights.data() + first * classes_, count, logits, sums);
  }
}

void LossPass::softmax(const std::uint8_t* labels, std::int64_t count, float* logits, double* sums) const {
  for (std::int64_t i = 0; i < count; ++i, logits += classes_) {
    const std::int64_t label = labels[i];
    const bool counted = label != kNotCounted;
    const float of_label = counted ? logits[label] : 0.0F;
    const Softmax result = softmax_of(classes_, logits);
    if (!counted) continue;
    for (std::int64_t k = 0; k < classes_; ++k) sums[k * kPerClass + kPredicted] += double{logits[k]};
    sums[label * kPerClass + kOverlap] += double{logits[label]};
    sums[label * kPerClass + kTrue] += 1;
    if (result.best == label) {
      sums[label * kPerClass + kTruePositive] += 1;
    } else {
      sums[result.best * kPerClass + kFalsePositive] += 1;
      sums[label * kPerClass + kFalseNegative] += 1;
    }
    double entropy = double{result.largest - of_label} + double{std::log(result.total)};
    if (loss_.focus > 0) entropy *= focal(loss_.focus, double{logits[label]}).factor;
    sums[kPerClass * classes_] += entropy;
  }
}

void LossPass::sigmoid(const float* targets, const float* weights, std::int64_t count, float* logits, double* sums) const {
  for (std::int64_t i = 0; i < count * classes_; ++i) {
    double* const of_class = sums + i % classes_ * kPerClass;
    const double target = double{targets[i]}, weight = weights == nullptr ? 1.0 : double{weights[i]};
    const CrossEntropy entropy = cross_entropy(double{logits[i]}, target);
    logits[i] = static_cast<float>(entropy.probability);
    of_class[kOverlap] += weight * entropy.probability * target;
    of_class[kPredicted] += weight * entropy.probability;
    of_class[kTrue] += weight * target;
    const double factor = loss_.focus > 0 ? focal(loss_.focus, of_target(entropy.probability, target)).factor : 1.0;
    sums[kPerClass * classes_] += weight * factor * entropy.loss;
    if (!(weight > 0)) continue;
    const bool predicted = logits[i] >= 0.5F, truth = target >= 0.5;
    of_class[kTruePositive] += predicted && truth ? 1 : 0;
    of_class[kFalsePositive] += predicted && !truth ? 1 : 0;
    of_class[kFalseNegative] += !predicted && truth ? 1 : 0;
  }
}

LossReport LossPass::finish(const SumOverRanks& sum_over_ranks) {
  LossReport report;
  std::ranges::fill(of_batch_.span(), 0.0);
  for (std::int64_t image = 0; image < n_; ++image) {
    double* const sums = sums_.data() + image * chunks_ * sums_each();
    add_parts(chunks_, sums_each(), sums);
    for (std::int64_t k = 0; k < classes_; ++k) {
      const double* const of_class = sums + k * kPerClass;
      for (std::int64_t i = 0; i < 3; ++i) of_batch_[3 * k + i] += of_class[i];
      report.counts[static_cast<std::size_t>(k)].add(
          {of_class[kTruePositive], of_class[kFalsePositive], of_class[kFalseNegative]});
    }
    report.cross_entropy += sums[kPerClass * classes_];
  }
  of_batch_[3 * classes_] = static_cast<double>(n_);
  if (loss_.over_batch && loss_.dice > 0 && sum_over_ranks) sum_over_ranks(of_batch_.span());
  const std::int64_t first = output_ == Output::softmax && !loss_.background && classes_ > 1 ? 1 : 0;  // class of the Dice
  const double of_class = 1.0 / static_cast<double>(classes_ - first);
  for (std::int64_t image = 0; image < n_; ++image) {
    const double* const sums = sums_.data() + image * chunks_ * sums_each();
    for (std::int64_t k = 0; k < classes_; ++k) {
      const double* const values = loss_.over_batch ? of_batch_.data() + 3 * k : sums + k * kPerClass;
      const double above = 2 * values[kOverlap] + loss_.smooth;
      const double below = values[kPredicted] + values[kTrue] + loss_.smooth;
      // Without smoothing, a class that has neither true nor predicted voxels counts as predicted perfectly.
      const bool empty = !(below > 0) && !std::isnan(below);
      const double share = k < first ? 0.0 : of_class * (loss_.over_batch ? of_batch_[3 * classes_] : 1.0);
      const double weight = empty ? 0.0 : loss_.dice * scale_ * share;
      factors_[(image * classes_ + k) * 2] = static_cast<float>(empty ? 0.0 : -2 * weight / below);
      factors_[(image * classes_ + k) * 2 + 1] = static_cast<float>(empty ? 0.0 : weight * above / (below * below));
      if (k >= first) report.dice += (empty ? 1.0 : above / below) * of_class;
    }
  }
  const double entries = static_cast<double>(voxels_) * (output_ == Output::softmax ? 1.0 : static_cast<double>(classes_));
  report.cross_entropy /= entries;
  report.loss = loss_.dice * (static_cast<double>(n_) - report.dice) + loss_.cross_entropy * report.cross_entropy;
  return report;
}

void LossPass::gradient(std::int64_t image, std::int64_t first, std::int64_t count, const float* probabilities,
                        float* out_gradient) const {
  const float* const factors = factors_.data() + image * classes_ * 2;
  const double entries = static_cast<double>(voxels_) * (output_ == Output::softmax ? 1.0 : static_cast<double>(classes_));
  const auto entropy = static_cast<float>(loss_.cross_entropy * scale_ / entries);
  if (output_ == Output::sigmoid) {
    for (std::int64_t i = 0; i < count * classes_; ++i) {
      const std::int64_t at = first * classes_ + i, k = i % classes_;
      const float p = probabilities[i], target = truth_.targets.data()[at];
      const float weight = truth_.weights.empty() ? 1.0F : truth_.weights.data()[at];
      float of_entropy = p - target;
      if (loss_.focus > 0) {
        const double q = of_target(double{p}, double{target});
        const auto [factor, slope] = focal(loss_.focus, q);
        const double loss = double{target} * surprise(double{p}) + (1 - double{target}) * surprise(1 - double{p});
        of_entropy = static_cast<float>(factor * double{of_entropy} -
                                        slope * loss * double{p} * (1 - double{p}) * (2 * double{target} - 1));
      }
      out_gradient[i] = weight * ((factors[2 * k] * target + factors[2 * k + 1]) * p * (1 - p) + entropy * of_entropy);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i, probabilities += classes_, out_gradient += classes_) {
    const std::int64_t label = truth_.labels.data()[first + i];
    if (label == kNotCounted) {
      std::fill_n(out_gradient, classes_, 0.0F);
      continue;
    }
    float of_entropy = entropy;
    if (loss_.focus > 0) {
      const double q = double{probabilities[label]};
      const auto [factor, slope] = focal(loss_.focus, q);
      of_entropy *= static_cast<float>(factor + slope * q * surprise(q));
    }
    float mean = 0;  // of the gradient by the probabilities, weighted with the probabilities
    for (std::int64_t k = 0; k < classes_; ++k) {
      out_gradient[k] = factors[2 * k + 1] + (k == label ? factors[2 * k] : 0.0F);
      mean += probabilities[k] * out_gradient[k];
    }
    for (std::int64_t k = 0; k < classes_; ++k) {
      out_gradient[k] =
          probabilities[k] * (out_gradient[k] - mean) + of_entropy * (probabilities[k] - (k == label ? 1.0F : 0.0F));
    }
  }
}

std::size_t LossPass::bytes() const noexcept {
  return static_cast<std::size_t>(sums_.size() + of_batch_.size()) * sizeof(double) +
         static_cast<std::size_t>(factors_.size()) * sizeof(float);
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
  for_each_chunk(n * voxels, n, pass.chunks(), [&](std::int64_t image, std::int64_t chunk, Range part) {
    pass.forward(image, chunk, part.begin, part.size(), out_probabilities.data() + part.begin * classes);
  });
  const LossReport report = pass.finish(sum_over_ranks);
  for_each_chunk(n * voxels, n, pass.chunks(), [&](std::int64_t image, std::int64_t, Range part) {
    pass.gradient(image, part.begin, part.size(), out_probabilities.data() + part.begin * classes,
                  out_gradient.data() + part.begin * classes);
  });
  return report;
}

}  // namespace floodtide::nn
