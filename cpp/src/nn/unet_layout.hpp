// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/nn/unet.hpp"
#include "nn/conv_block.hpp"

namespace floodtide::nn {

[[nodiscard]] Vec3 kernel_of(const UNetOptions& options, int level);
/// Return the pooling factors from `level` to the next level.
[[nodiscard]] Vec3 pool_of(const UNetOptions& options, int level);
[[nodiscard]] std::int64_t features_of(const UNetOptions& options, int level);
[[nodiscard]] Vec3 total_pool(const UNetOptions& options);
/// True if no layer mixes z planes. All planes of a batch can then be treated as one volume.
[[nodiscard]] bool is_planar(const UNetOptions& options);

/// Channels of a convolution block, and the indices of its arrays in the layout.
struct BlockEntries {
  std::int64_t in, out;
  std::size_t weights, biases;               ///< biases: without batch norm
  std::size_t scale, shift, mean, variance;  ///< with batch norm
};

struct UNetLayout {
  explicit UNetLayout(const UNetOptions& options);

  ParameterLayout arrays;
  std::vector<BlockEntries> encoder, decoder;  ///< two blocks per level; the lowest level has no decoder
  std::vector<std::size_t> up;                 ///< weights of the transposed convolution to each level; the biases are next
  std::size_t head;                            ///< weights of the head; the biases are next
};

/// Return the parts of a buffer with this layout that belong to a block.
template <class T>
[[nodiscard]] BlockParameters<T> block_part(std::span<T> buffer, const UNetLayout& layout, const BlockEntries& block,
                                            bool norm) {
  const auto of = [&](std::size_t entry) { return part(buffer, layout.arrays.entry(entry)); };
  if (norm) return {of(block.weights), {}, of(block.scale), of(block.shift), of(block.mean), of(block.variance)};
  return {of(block.weights), of(block.biases), {}, {}, {}, {}};
}

/// Sets the initial parameters, see UNet::UNet.
void initialise(const UNetOptions& options, const UNetLayout& layout, std::span<float> out_parameters);

}  // namespace floodtide::nn
