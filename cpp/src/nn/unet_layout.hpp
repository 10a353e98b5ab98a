// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/nn/unet.hpp"
#include "nn/conv_block.hpp"

namespace floodtide::nn {

[[nodiscard]] Vec3 kernel_of(const UNetOptions& options, int level);
/// From `level` to the next one.
[[nodiscard]] Vec3 pool_of(const UNetOptions& options, int level);
[[nodiscard]] std::int64_t features_of(const UNetOptions& options, int level);
[[nodiscard]] Vec3 total_pool(const UNetOptions& options);
/// No layer mixes planes: all of a batch are alike.
[[nodiscard]] bool is_planar(const UNetOptions& options);

/// Where a convolution block's arrays are: numbers of entries.
struct BlockEntries {
  std::int64_t in, out;
  std::size_t weights, biases;  ///< biases, or with batch norm what follows
  std::size_t scale, shift, mean, variance;
};

struct UNetLayout {
  explicit UNetLayout(const UNetOptions& options);

  ParameterLayout arrays;
  std::vector<BlockEntries> encoder, decoder;  ///< two for each level (decoder: of each level above the lowest)
  std::vector<std::size_t> up;                 ///< weights of the transposed convolution to a level; its biases follow
  std::size_t head;                            ///< weights; the biases follow
};

/// The part of a buffer in this layout that belongs to a block.
template <class T>
[[nodiscard]] BlockParameters<T> block_part(std::span<T> buffer, const UNetLayout& layout, const BlockEntries& block,
                                            bool norm) {
  const auto of = [&](std::size_t entry) { return part(buffer, layout.arrays.entry(entry)); };
  if (norm) return {of(block.weights), {}, of(block.scale), of(block.shift)};
  return {of(block.weights), of(block.biases), {}, {}};
}

/// As UNet's constructor says.
void initialise(const UNetOptions& options, const UNetLayout& layout, std::span<float> out_parameters);

}  // namespace floodtide::nn
