// SPDX-License-Identifier: Apache-2.0
#include "nn/dropout.hpp"

#include "floodtide/base/random.hpp"

namespace floodtide::nn {

void apply_dropout(const Grid& grid, std::int64_t channels, double share, std::uint64_t seed,
                   std::span<const std::uint64_t> examples, float* activation) {
  constexpr std::uint64_t kPurpose = 0xD207;
  constexpr std::int64_t kDraws = 4;  // numbers in a block of the random number generator
  const auto kept = static_cast<float>(1.0 / (1.0 - share));
  const double threshold = share * 0x1p32;
  const std::int64_t image_rows = grid.rows() / std::ssize(examples);
  for_each_chunk(grid.rows(), std::ssize(examples), chunks_of(grid.rows(), std::ssize(examples)),
                 [&](std::int64_t image, std::int64_t, Range rows) {
                   const std::uint64_t stream = stream_id(kPurpose, examples[static_cast<std::size_t>(image)]);
                   const std::int64_t row_floats = grid.x * channels;
                   for (std::int64_t row = rows.begin; row < rows.end; ++row) {
                     const std::int64_t first = (row - image * image_rows) * row_floats / kDraws;
                     Philox random(seed, stream, static_cast<std::uint64_t>(first));
                     float* const values = activation + grid.offset(row, channels);
                     for (std::int64_t i = 0; i < row_floats; i += kDraws) {
                       const auto draws = random.block();
                       for (std::int64_t j = 0; j < kDraws; ++j) {
                         values[i + j] *= static_cast<double>(draws[static_cast<std::size_t>(j)]) < threshold ? 0.0F : kept;
                       }
                     }
                   }
                 });
}

}  // namespace floodtide::nn
