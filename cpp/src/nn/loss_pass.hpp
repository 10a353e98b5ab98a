// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/base/memory.hpp"
#include "floodtide/nn/segmentation_loss.hpp"

namespace floodtide::nn {

/// Throws Error(shape_mismatch) if the truth does not fit outputs of this shape [n, z, y, x, classes], and
/// Error(invalid_argument) for a label that is neither a class nor kNotCounted. Messages begin with `who`.
void check_truth(const char* who, Output output, const Shape<5>& shape, const SegmentationTruth& truth);

/// Turns the logits of `count` voxels into probabilities, in place.
void to_probabilities(Output output, std::int64_t classes, std::int64_t count, float* logits) noexcept;

/// Arithmetic of SegmentationLoss for a batch of n images. The caller processes all voxels twice.
///
/// The first time, forward() turns logits into probabilities and computes sums. When the sums of all images are known
/// (finish()), gradient() computes the gradients. The sums of an image are made in chunks. The number of chunks does not depend
/// on the number of threads.
class LossPass {
 public:
  /// @param voxels voxels per image
  /// @param chunks number of chunks per image
  LossPass(std::int64_t n, std::int64_t voxels, int classes, Output output, std::int64_t chunks)
      : n_(n), voxels_(voxels), classes_(classes), chunks_(chunks), output_(output) {}

  /// Start a batch. The caller must have checked `truth` with check_truth().
  void begin(const SegmentationLoss& loss, const SegmentationTruth& truth, double scale);

  /// Turn the logits of `count` voxels of an image into probabilities, in place, and add to the sums of the chunk. `first` is
  /// the index of the first voxel over all images.
  void forward(std::int64_t image, std::int64_t chunk, std::int64_t first, std::int64_t count, float* logits);
  /// Return the loss. Call this after forward() of all voxels, and before gradient().
  [[nodiscard]] LossReport finish(const SumOverRanks& sum_over_ranks);
  /// Compute the gradient of `scale` times the sum of the losses of all images by the logits of these voxels.
  void gradient(std::int64_t image, std::int64_t first, std::int64_t count, const float* probabilities,
                float* out_gradient) const;

  [[nodiscard]] std::int64_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  /// Indices of the sums of a chunk: six sums per class, then the cross-entropy.
  enum Sum : std::int64_t { kOverlap, kPredicted, kTrue, kTruePositive, kFalsePositive, kFalseNegative, kPerClass };
  [[nodiscard]] std::int64_t sums_each() const noexcept { return kPerClass * classes_ + 1; }
  void softmax(const std::uint8_t* labels, std::int64_t count, float* logits, double* sums) const;
  void sigmoid(const float* targets, const float* weights, std::int64_t count, float* logits, double* sums) const;

  std::int64_t n_, voxels_, classes_, chunks_;
  Output output_;
  SegmentationLoss loss_;
  SegmentationTruth truth_;
  double scale_ = 1;
  AlignedBuffer<double> sums_{n_ * chunks_ * sums_each()};  // after finish(), chunk 0 holds the sums of the whole image
  AlignedBuffer<double> of_batch_{3 * classes_ + 1};        // overlap, predicted and true of each class; number of images
  AlignedBuffer<float> factors_{n_ * classes_ * 2};         // a and b of the Dice gradient a * truth + b by a probability
};

}  // namespace floodtide::nn
