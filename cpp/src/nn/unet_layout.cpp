// SPDX-License-Identifier: Apache-2.0
#include "nn/unet_layout.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::nn {
namespace {

constexpr std::uint64_t kInitialWeights = 0x1417;  // purpose of the random stream

const Vec3& one_of(std::span<const Vec3> vectors, int level) {
  return vectors.size() == 1 ? vectors[0] : vectors[static_cast<std::size_t>(level)];
}

}  // namespace

Vec3 kernel_of(const UNetOptions& options, int level) { return one_of(options.kernels, level); }
Vec3 pool_of(const UNetOptions& options, int level) { return one_of(options.pools, level); }
std::int64_t features_of(const UNetOptions& options, int level) { return std::int64_t{options.features} << level; }

Vec3 total_pool(const UNetOptions& options) {
  Vec3 total{1, 1, 1};
  for (int level = 0; level + 1 < options.depth; ++level) {
    for (std::size_t axis = 0; axis < 3; ++axis) total[axis] *= pool_of(options, level)[axis];
  }
  return total;
}

bool is_planar(const UNetOptions& options) {
  for (int level = 0; level < options.depth; ++level) {
    if (kernel_of(options, level)[0] != 1) return false;
  }
  return total_pool(options)[0] == 1;
}

UNetLayout::UNetLayout(const UNetOptions& options) {
  const auto add_block = [&](const std::string& scope, const char* half, const Vec3& kernel, std::int64_t in,
                             std::int64_t out) {
    const std::string convolution = str_cat(scope, "/conv_", half), norm = str_cat(scope, "/norm_", half);
    BlockEntries block{in, out, 0, 0, 0, 0, 0, 0};
    block.weights = arrays.add(convolution + "/weights", {kernel[0], kernel[1], kernel[2], in, out});
    if (options.batch_norm) {
      block.scale = arrays.add(norm + "/scale", {out});
      block.shift = arrays.add(norm + "/shift", {out});
    } else {
      block.biases = arrays.add(convolution + "/biases", {out});
    }
    return block;
  };
  const auto add_pair = [&](const std::string& scope, int level, std::int64_t in, std::vector<BlockEntries>& blocks,
                            std::size_t at) {
    const std::int64_t out = features_of(options, level);
    blocks[at] = add_block(scope, "a", kernel_of(options, level), in, out);
    blocks[at + 1] = add_block(scope, "b", kernel_of(options, level), out, out);
  };
  const auto levels = static_cast<std::size_t>(options.depth);
  encoder.resize(2 * levels);
  decoder.resize(2 * (levels - 1));
  up.resize(levels - 1);
  for (int level = 0; level < options.depth; ++level) {
    add_pair(str_cat("encoder", level), level, level == 0 ? options.in_channels : features_of(options, level - 1), encoder,
             2 * static_cast<std::size_t>(level));
  }
  for (int level = options.depth - 2; level >= 0; --level) {
    const std::int64_t out = features_of(options, level);
    const Vec3 pool = pool_of(options, level);
    const std::string scope = str_cat("decoder", level);
    up[static_cast<std::size_t>(level)] =
        arrays.add(scope + "/up/weights", {pool[0], pool[1], pool[2], features_of(options, level + 1), out});
    static_cast<void>(arrays.add(scope + "/up/biases", {out}));
    add_pair(scope, level, 2 * out, decoder, 2 * static_cast<std::size_t>(level));
  }
  head = arrays.add("head/weights", {1, 1, 1, options.features, options.classes});
  static_cast<void>(arrays.add("head/biases", {options.classes}));
  if (!options.batch_norm) return;
  for (auto* blocks : {&encoder, &decoder}) {
    for (BlockEntries& block : *blocks) {
      const std::string& scale = arrays.entry(block.scale).name;  // ".../scale"
      const std::string norm = scale.substr(0, scale.rfind('/'));
      block.mean = arrays.add_statistic(norm + "/mean", {block.out});
      block.variance = arrays.add_statistic(norm + "/variance", {block.out});
    }
  }
}

void initialise(const UNetOptions& options, const UNetLayout& layout, std::span<float> out_parameters) {
  std::ranges::fill(out_parameters, 0.0F);
  const auto normal = [&](std::size_t entry, double variance) {  // each array has its own random stream
    Philox random(options.seed, stream_id(kInitialWeights, entry));
    for (float& value : part(out_parameters, layout.arrays.entry(entry))) {
      value = static_cast<float>(std::sqrt(variance) * random.normal());
    }
  };
  for (const auto* blocks : {&layout.encoder, &layout.decoder}) {
    for (const BlockEntries& block : *blocks) {
      const ParameterLayout::Entry& entry = layout.arrays.entry(block.weights);
      normal(block.weights, 2.0 * static_cast<double>(block.out) / static_cast<double>(entry.size));
      if (!options.batch_norm) continue;
      std::ranges::fill(part(out_parameters, layout.arrays.entry(block.scale)), 1.0F);
      std::ranges::fill(part(out_parameters, layout.arrays.entry(block.variance)), 1.0F);
    }
  }
  for (int level = 0; level + 1 < options.depth; ++level) {
    normal(layout.up[static_cast<std::size_t>(level)], 1.0 / static_cast<double>(features_of(options, level + 1)));
  }
  normal(layout.head, 1.0 / options.features);
}

}  // namespace floodtide::nn
