// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/validation.hpp"

#include <array>
#include <exception>
#include <optional>
#include <span>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/tensor/box.hpp"

namespace floodtide::train {
namespace {

constexpr std::uint64_t kValidationMoves = 0x76616C6964;  // purpose of the random stream: the order of moves

// A CentreOutcome as numbers that are summed over ranks. One rank computes each centre, and the other ranks add zeros. The sums
// are exact, because counts are below 2^53.
constexpr std::size_t kFields = 6;
using ValidationRow = std::array<double, kFields>;

ValidationRow row_of(double cross_entropy_sum, const evaluate::BinaryCounts& counts, std::int64_t voxels) {
  return {cross_entropy_sum,
          static_cast<double>(voxels),
          static_cast<double>(counts.true_positive),
          static_cast<double>(counts.false_positive),
          static_cast<double>(counts.true_negative),
          static_cast<double>(counts.false_negative)};
}

CentreOutcome outcome_of(std::span<const double> row) {
  const auto integer = [&](std::size_t i) { return static_cast<std::int64_t>(row[i]); };
  return {row[0], integer(1), {integer(2), integer(3), integer(4), integer(5)}};
}

// Adds the voxels to `pool`, and returns their row.
ValidationRow count(evaluate::VoxelCounts& pool, View<const float, 3> logits, View<const float, 3> labels) {
  evaluate::VoxelCounts own;
  const double cross_entropy_sum = own.add(logits, labels);
  pool.merge(own);
  return row_of(cross_entropy_sum, own.counts(0), labels.size());
}

class CentreRunner {
 public:
  CentreRunner(nn::Ffn& network, const flood::TrainingFloodOptions& options)
      : network_(network), flood_(options), image_(options.fov), logits_(options.fov), labels_(options.fov) {}

  void run(const data::Patch& example, std::uint64_t seed, std::uint64_t stream, ValidationResult& result,
           ValidationRow& out_first, ValidationRow& out_moves) {
    flood_.begin(seed, stream);
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
        out_first = count(result.first_pass, logits_.view(), labels_.view());
        first = false;
      }
    }
    out_moves = count(result.moves, flood_.canvas(), example.labels.view());
  }

 private:
  nn::Ffn& network_;
  flood::TrainingFlood flood_;
  Tensor<float, 3> image_, logits_, labels_;
};

void reduce(comm::Communicator& communicator, evaluate::VoxelCounts& counts) {
  std::vector<std::int64_t> values(counts.values().begin(), counts.values().end());
  comm::allreduce(communicator, std::span(values), comm::ReduceOp::sum);
  counts.assign(values);
}

}  // namespace

ValidationResult validate(nn::Ffn& network, const data::Source& source, const std::vector<data::Centre>& centres,
                          const flood::TrainingFloodOptions& options, double softness, std::uint64_t seed,
                          comm::Communicator& communicator, const Progress& progress) {
  ValidationResult result;
  const std::size_t count = centres.size();
  std::vector<double> rows(2 * kFields * count, 0.0);
  std::exception_ptr failure;
  try {
    network.parameters_changed();  // the caller may have written to them
    const nn::SameParameters same(network.use());
    CentreRunner runner(network, options);
    for (std::size_t i = static_cast<std::size_t>(communicator.rank()); i < count;
         i += static_cast<std::size_t>(communicator.size())) {
      const data::Patch example = data::read_patch(source, centres[i].position, flood::patch_size(options.fov, options.deltas),
                                                   static_cast<float>(1 - softness), static_cast<float>(softness));
      ValidationRow first{}, moves{};
      runner.run(example, seed, stream_id(kValidationMoves, i), result, first, moves);
      same.require("validation");
      std::copy(first.begin(), first.end(), rows.begin() + static_cast<std::ptrdiff_t>(2 * kFields * i));
      std::copy(moves.begin(), moves.end(), rows.begin() + static_cast<std::ptrdiff_t>(2 * kFields * i + kFields));
      report(progress, static_cast<std::int64_t>(i) + 1, static_cast<std::int64_t>(count));
    }
  } catch (...) {
    failure = std::current_exception();
  }
  comm::agree(communicator, failure);
  comm::allreduce(communicator, std::span(rows), comm::ReduceOp::sum);
  comm::allreduce(communicator, std::span(&result.moves_made, 1), comm::ReduceOp::sum);
  reduce(communicator, result.first_pass);
  reduce(communicator, result.moves);
  for (std::size_t i = 0; i < count; ++i) {
    result.first_pass_centres.push_back(outcome_of(std::span(rows).subspan(2 * kFields * i, kFields)));
    result.moves_centres.push_back(outcome_of(std::span(rows).subspan(2 * kFields * i + kFields, kFields)));
  }
  return result;
}

}  // namespace floodtide::train
