// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/validation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "floodtide/flood/training_flood.hpp"
#include "support/threads.hpp"
#include "unit/train/run_fixture.hpp"

namespace floodtide::train {
namespace {

class ValidationTest : public RunFixture {
 protected:
  ValidationResult validate_on(int ranks, nn::Ffn& (*prepare)(nn::Ffn&) = nullptr) const {
    ValidationResult result;
    comm::run_threads(ranks, [&](comm::Communicator& communicator) {
      std::vector<data::Source> sources;
      sources.emplace_back(source_options());
      const auto centres = data::balanced_centres(sources, flood::patch_size(kFov, kDeltas), 1, 13, 7, 1);
      nn::Ffn net = network();
      if (prepare != nullptr) prepare(net);
      auto own = validate(net, sources.front(), centres, {kFov, kDeltas, 0.05, 0.9}, 0.05, 1, communicator);
      if (communicator.rank() == communicator.size() - 1) result = std::move(own);
    });
    return result;
  }
};

TEST_F(ValidationTest, IsTheSameOnAnyNumberOfRanks) {
  const ValidationResult one = validate_on(1), three = validate_on(3);
  EXPECT_EQ(one.moves_made, three.moves_made);
  ASSERT_EQ(one.first_pass_centres.shape(), (Shape<2>{7, 6}));
  EXPECT_TRUE(std::ranges::equal(one.first_pass_centres.span(), three.first_pass_centres.span()));
  EXPECT_TRUE(std::ranges::equal(one.moves_centres.span(), three.moves_centres.span()));
  EXPECT_EQ(one.first_pass.average_precision(), three.first_pass.average_precision());
}

// A network of zeros does not change the logits, so that all results are known in closed form.
TEST_F(ValidationTest, OfANetworkThatChangesNothingIsTheFreshSeed) {
  const ValidationResult result = validate_on(1, [](nn::Ffn& net) -> nn::Ffn& {
    for (float& x : net.parameters()) x = 0;
    net.parameters_changed();
    return net;
  });
  EXPECT_EQ(result.moves_made, 7);  // only the first move of each centre
  const evaluate::BinaryCounts counts = result.first_pass.counts(0);
  EXPECT_EQ(counts.true_positive, 7);  // only the seed voxels
  EXPECT_EQ(counts.false_positive, 0);
  EXPECT_EQ(result.first_pass.voxels(), 7 * volume<3>(kFov));
  EXPECT_EQ(result.moves.voxels(), 7 * volume<3>(flood::patch_size(kFov, kDeltas)));
  // With soft labels and logits of +-log(19), a correct voxel has the entropy of 0.05 as loss, and a wrong one 0.9 log(19)
  // more.
  const double agree = -(0.95 * std::log(0.95) + 0.05 * std::log(0.05));
  const double differ = agree + 0.9 * std::log(19.0);
  const auto wrong = static_cast<double>(counts.false_negative);
  double sum = 0;
  for (std::int64_t centre = 0; centre < 7; ++centre) sum += result.first_pass_centres.data()[6 * centre];
  const double expected = agree * (static_cast<double>(result.first_pass.voxels()) - wrong) + differ * wrong;
  EXPECT_NEAR(sum / expected, 1.0, 8 * std::numeric_limits<float>::epsilon());
}

}  // namespace
}  // namespace floodtide::train
