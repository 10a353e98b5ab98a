// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/nn/segmentation_loss.hpp"

namespace floodtide::nn {

/// Turns the logits of `count` voxels into probabilities, in place.
void to_probabilities(Output output, std::int64_t classes, std::int64_t count, float* logits) noexcept;

/// The arithmetic of SegmentationLoss for a batch of n images that somebody walks through twice, row by row: first from logits
/// to probabilities and sums, then, once the sums of all images are known, to gradients. Rows of an image are summed in chunks,
/// whose number does not depend on threads.
class LossPass {
 public:
  /// @param chunks of rows that each image is cut into
  LossPass(std::int64_t n, std::int64_t voxels, int classes, Output output, std::int64_t chunks);

  /// The truth is checked: shapes that fit, labels that are classes or kNotCounted.
  void begin(const SegmentationLoss& loss, const SegmentationTruth& truth, double scale);

  /// Makes probabilities of the logits of `count` voxels from voxel `first` of an image on, in place, and adds to the chunk's
  /// sums.
  void forward(std::int64_t image, std::int64_t chunk, std::int64_t first, std::int64_t count, float* logits);
  /// To be called between the passes.
  [[nodiscard]] LossReport finish(const SumOverRanks& sum_over_ranks);
  /// The gradient by the logits of these voxels of scale times the sum of all images' losses.
  void gradient(std::int64_t image, std::int64_t first, std::int64_t count, const float* probabilities,
                float* out_gradient) const;

  [[nodiscard]] std::int64_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  /// Places of a chunk's sums: six for each class, then the cross-entropy.
  enum Sum : std::int64_t { kOverlap, kPredicted, kTrue, kTruePositive, kFalsePositive, kFalseNegative, kPerClass };
  [[nodiscard]] std::int64_t sums_each() const noexcept { return kPerClass * classes_ + 1; }
  [[nodiscard]] int first_class() const noexcept;
  void softmax(const std::uint8_t* labels, std::int64_t count, float* logits, double* sums) const;
  void sigmoid(const float* targets, const float* weights, std::int64_t count, float* logits, double* sums) const;

  std::int64_t n_, voxels_, classes_, chunks_;
  Output output_;
  SegmentationLoss loss_;
  SegmentationTruth truth_;
  double scale_ = 1;
  AlignedBuffer<double> sums_;      // [n, chunks, sums_each()]; after finish() the first chunk's are the image's
  AlignedBuffer<double> of_batch_;  // overlap, predicted, true of each class; images
  AlignedBuffer<float> factors_;    // [n, classes, 2]: of the truth and of 1 in the gradient of Dice by a probability
};

}  // namespace floodtide::nn
