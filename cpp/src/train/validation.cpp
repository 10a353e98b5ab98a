// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/validation.hpp"

#include <optional>
#include <span>

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

class CentreRunner {
 public:
  CentreRunner(nn::Ffn& network, const flood::TrainingFloodOptions& options)
      : network_(network), flood_(options), image_(options.fov), logits_(options.fov), labels_(options.fov) {}

  void run(const data::Patch& example, std::uint64_t seed, std::size_t centre, ValidationResult& result) {
    const auto row = static_cast<std::int64_t>(centre) * kFields;
    flood_.begin(seed, stream_id(kValidationMoves, centre));
    bool first = true;
    while (const std::optional<Box> box = flood_.advance()) {
      copy_box<float>(example.image.view(), *box, image_.view());
      copy_box<float>(flood_.canvas(), *box, logits_.view());
      const nn::FfnExample field{image_.view(), logits_.view(), logits_.view(), {}, {}};
      network_.forward({&field, 1});
      paste_box<float>(logits_.view(), flood_.canvas(), *box);
      ++result.moves_made;
      if (first) {
        copy_box<float>(example.labels.view(), *box, labels_.view());
        count(result.first_pass, logits_.view(), labels_.view(), result.first_pass_centres.data() + row);
        first = false;
      }
    }
    count(result.moves, flood_.canvas(), example.labels.view(), result.moves_centres.data() + row);
  }

 private:
  nn::Ffn& network_;
  flood::TrainingFlood flood_;
  Tensor<float, 3> image_, logits_, labels_;
};

}  // namespace

ValidationResult validate(nn::Ffn& network, const data::Source& source, const std::vector<data::Centre>& centres,
                          const flood::TrainingFloodOptions& options, double softness, std::uint64_t seed,
                          comm::Communicator& communicator, const Progress& progress) {
  ValidationResult result;
  const std::int64_t count = std::ssize(centres);
  result.first_pass_centres = Tensor<double, 2>({count, kFields});
  result.moves_centres = Tensor<double, 2>({count, kFields});
  CentreRunner runner(network, options);
  validate_parts(network, count, communicator, progress, [&](std::int64_t part) {
    const auto i = static_cast<std::size_t>(part);
    const Vec3 size = flood::patch_size(options.fov, options.deltas);
    runner.run(data::read_patch(source, centres[i].position, size, softness), seed, i, result);
  });
  // One rank computes each centre, and the other ranks add zeros. The sums are exact, because counts are below 2^53.
  comm::allreduce(communicator, result.first_pass_centres.span(), comm::ReduceOp::sum);
  comm::allreduce(communicator, result.moves_centres.span(), comm::ReduceOp::sum);
  comm::allreduce(communicator, std::span(&result.moves_made, 1), comm::ReduceOp::sum);
  add_ranks(communicator, result.first_pass);
  add_ranks(communicator, result.moves);
  return result;
}

}  // namespace floodtide::train
