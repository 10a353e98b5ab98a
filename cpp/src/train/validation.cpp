// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/validation.hpp"

#include <optional>
#include <span>
#include <utility>

#include "floodtide/base/random.hpp"
#include "floodtide/tensor/box.hpp"
#include "train/over_ranks.hpp"

namespace floodtide::train {
namespace {

constexpr std::uint64_t kValidationMoves = 0x76616C6964;  // purpose of the random stream: the order of moves

constexpr std::int64_t kFields = 6;  // numbers of a row of ValidationResult::first_pass_centres

/// Adds the voxels to `pool`, and writes the row of their centre.
void count(evaluate::VoxelCounts& pool, View<const float, 3> logits, View<const float, 3> labels, double* out_row) {
  evaluate::VoxelCounts own;
  const double cross_entropy_sum = own.add(logits, labels);
  pool.merge(own);
  const evaluate::BinaryCounts counts = own.counts(0);
  *out_row++ = cross_entropy_sum;
  for (const std::int64_t number :
       {labels.size(), counts.true_positive, counts.false_positive, counts.false_negative, counts.true_negative}) {
    *out_row++ = static_cast<double>(number);
  }
}

}  // namespace

ValidationResult validate(nn::Ffn& network, const data::Source& source, const std::vector<data::Centre>& centres,
                          const flood::TrainingFloodOptions& options, double softness, std::uint64_t seed,
                          comm::Communicator& communicator, const Progress& progress) {
  ValidationResult result;
  result.first_pass_centres = Tensor<double, 2>({std::ssize(centres), kFields});
  result.moves_centres = Tensor<double, 2>(result.first_pass_centres.shape());
  const auto prepare = [&] {
    return [&, flood = flood::TrainingFlood(options), image = Tensor<float, 3>(options.fov),
            logits = Tensor<float, 3>(options.fov), labels = Tensor<float, 3>(options.fov)](std::int64_t centre) mutable {
      const data::Patch example = data::read_patch(source, centres[static_cast<std::size_t>(centre)].position,
                                                   flood::patch_size(options.fov, options.deltas));
      const Tensor<float, 3> truth = data::soft_labels(example.objects.view(), softness);
      flood.begin(seed, stream_id(kValidationMoves, static_cast<std::uint64_t>(centre)));
      bool first = true;
      while (const std::optional<Box> box = flood.advance()) {
        copy_box<float>(example.image.view(), *box, image.view());
        copy_box<float>(flood.canvas(), *box, logits.view());
        const nn::FfnExample field{image.view(), logits.view(), logits.view(), {}, {}};
        network.forward({&field, 1});
        paste_box<float>(logits.view(), flood.canvas(), *box);
        ++result.moves_made;
        if (!std::exchange(first, false)) continue;
        copy_box<float>(truth.view(), *box, labels.view());
        count(result.first_pass, logits.view(), labels.view(), &result.first_pass_centres.view()(centre, 0));
      }
      count(result.moves, flood.canvas(), truth.view(), &result.moves_centres.view()(centre, 0));
    };
  };
  validate_parts(network, std::ssize(centres), communicator, progress, prepare);
  // One rank computes each centre, and the other ranks add zeros. The sums are exact, because counts are below 2^53.
  comm::allreduce(communicator, result.first_pass_centres.span(), comm::ReduceOp::sum);
  comm::allreduce(communicator, result.moves_centres.span(), comm::ReduceOp::sum);
  comm::allreduce(communicator, std::span(&result.moves_made, 1), comm::ReduceOp::sum);
  add_ranks(communicator, result.first_pass);
  add_ranks(communicator, result.moves);
  return result;
}

}  // namespace floodtide::train
