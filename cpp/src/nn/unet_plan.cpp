// SPDX-License-Identifier: Apache-2.0
#include "nn/unet_plan.hpp"

#include <algorithm>
#include <utility>

#include "floodtide/base/error.hpp"
#include "nn/dropout.hpp"

namespace floodtide::nn {
namespace {

using kernels::Passes;

/// Sets the halo of an activation to zero. The interior does not change.
void clear_halo(const Grid& grid, std::int64_t channels, float* activation) {
  const std::int64_t row_floats = (grid.x + 2) * channels, plane_rows = grid.y + 2, planes = grid.z + 2;
  parallel_for(grid.examples * planes, [&](std::int64_t plane) {
    float* const begin = activation + plane * plane_rows * row_floats;
    const bool outside = plane % planes == 0 || plane % planes == planes - 1;
    for (std::int64_t row = 0; row < plane_rows; ++row) {
      float* const at = begin + row * row_floats;
      if (outside || row == 0 || row == plane_rows - 1) {
        std::fill_n(at, row_floats, 0.0F);
      } else {
        std::fill_n(at, channels, 0.0F);
        std::fill_n(at + row_floats - channels, channels, 0.0F);
      }
    }
  });
}

/// Return the voxels of a level, for n images whose size is `size` on level 0.
Grid grid_of(std::int64_t n, Vec3 size, int level, const UNetOptions& options) {
  for (int above = 0; above < level; ++above) {
    for (std::size_t axis = 0; axis < 3; ++axis) size[axis] /= pool_of(options, above)[axis];
  }
  return is_planar(options) ? Grid{1, n * size[0], size[1], size[2]} : Grid{n, size[0], size[1], size[2]};
}

/// Sizes of the buffers of a level, in floats.
struct LevelFloats {
  std::int64_t output;  // of one block: `encoder_inner`, each `before`, each half of `joined`
  std::int64_t pooled, joined, decoded;
  std::int64_t blocks;  // number of blocks, each with a buffer `before` in a plan for training
};

LevelFloats floats_of(const Grid& grid, int level, const UNetOptions& options) {
  const bool last = level + 1 == options.depth;
  const std::int64_t output = grid.floats(features_of(options, level));
  return {.output = output,
          .pooled = level > 0 ? grid.floats(features_of(options, level - 1)) : 0,
          .joined = last ? output : 2 * output,
          .decoded = last ? 0 : 2 * output,
          .blocks = last ? 2 : 4};
}

std::int64_t input_floats(const Grid& grid, const UNetOptions& options) {
  return grid.floats(kernels::stored_channels(options.in_channels));
}

}  // namespace

struct UNetPlan::Pass {
  const UNetBatch& batch;
  std::span<float> gradients;
  double scale;
  const OnReady& on_ready;
  const SumOverRanks& sum_over_ranks;
};

UNetPlan::UNetPlan(std::int64_t n, const Vec3& size, int groups, const UNetOptions& options, const UNetLayout& layout)
    : n_(n),
      size_(size),
      groups_(groups),
      layout_(&layout),
      batch_norm_(options.batch_norm),
      dropout_(options.dropout),
      seed_(options.seed) {
  const Grid grid = grid_of(n, size, 0, options);
  input_ = AlignedBuffer<float>(input_floats(grid, options));
  levels_.reserve(static_cast<std::size_t>(options.depth));
  for (int level = 0; level < options.depth; ++level) add_level(level, options, layout);
  std::vector<kernels::Conv3dShape> shapes;
  for (const Level& level : levels_) {
    for (const Node& node : level.encoder) shapes.push_back(node.block.convolution().shape());
    for (const Node& node : level.decoder) shapes.push_back(node.block.convolution().shape());
  }
  kernels::require_bf16_gain(options.compute, shapes);
  head_.emplace_back(grid, n, levels_[0].channels, options.classes, options.output);
  std::int64_t largest = 0;
  for (const Level& level : levels_) largest = std::max(largest, level.grid.floats(level.channels));
  if (groups == 0) {
    scratch_ = AlignedBuffer<float>(largest);
  } else {
    for (AlignedBuffer<float>& grad : grads_) grad = AlignedBuffer<float>(largest);
  }
}

void UNetPlan::add_level(int level, const UNetOptions& options, const UNetLayout& layout) {
  const auto number = static_cast<std::size_t>(level);
  Level& here = levels_.emplace_back();
  here.grid = grid_of(n_, size_, level, options);
  here.channels = features_of(options, level);
  const LevelFloats floats = floats_of(here.grid, level, options);
  const ConvBlock::Options block_options{options.batch_norm, options.synchronised, options.compute, options.kernel};
  const auto node = [&](const BlockEntries& entries) {
    return Node{&entries,
                {here.grid, kernel_of(options, level), entries.in, entries.out, std::max(groups_, 1), block_options},
                AlignedBuffer<float>(groups_ > 0 ? floats.output : 0)};
  };
  here.encoder_inner = AlignedBuffer<float>(floats.output);
  for (std::size_t half = 0; half < 2; ++half) here.encoder.push_back(node(layout.encoder[2 * number + half]));
  if (level > 0) {
    const Level& above = levels_[number - 1];
    const Vec3 pool = pool_of(options, level - 1);
    here.pooled = AlignedBuffer<float>(floats.pooled);
    levels_[number - 1].pool.push_back({above.grid, here.grid, pool, above.channels});
    levels_[number - 1].up.emplace_back(kernels::UpConvolutionShape{here.grid.examples, here.grid.z, here.grid.y, here.grid.x,
                                                                    here.channels, above.channels, pool, 2 * above.channels,
                                                                    above.channels});
  }
  here.joined = AlignedBuffer<float>(floats.joined);
  if (level + 1 == options.depth) return;
  for (std::size_t half = 0; half < 2; ++half) here.decoder.push_back(node(layout.decoder[2 * number + half]));
  here.decoded = AlignedBuffer<float>(floats.decoded);
}

void UNetPlan::set_parameters(std::span<const float> parameters) {
  const Passes passes = groups_ > 0 ? Passes::all : Passes::forward;
  const auto set = [&](std::vector<Node>& nodes) {
    for (Node& node : nodes) {
      const auto moving = [&](std::size_t entry) {
        return batch_norm_ ? part(parameters, layout_->arrays.entry(entry)) : std::span<const float>();
      };
      node.block.set_parameters(block_part(parameters, *layout_, *node.entries, batch_norm_), moving(node.entries->mean),
                                moving(node.entries->variance), passes);
    }
  };
  const auto of = [&](std::size_t entry) { return part(parameters, layout_->arrays.entry(entry)); };
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    set(levels_[level].encoder);
    set(levels_[level].decoder);
    if (level < lowest()) {
      levels_[level].up[0].set_weights(of(layout_->up[level]).data(), of(layout_->up[level] + 1).data(), passes);
    }
  }
  head_[0].set_weights(of(layout_->head), of(layout_->head + 1));
}

std::int64_t UNetPlan::joined_stored(std::size_t level) const noexcept {
  return (level == lowest() ? 1 : 2) * levels_[level].channels;
}

float* UNetPlan::output_of(std::size_t level) noexcept {
  return level == lowest() ? levels_[level].joined.data() : levels_[level].decoder_out();
}

float* UNetPlan::input_of(std::size_t level) noexcept { return level == 0 ? input_.data() : levels_[level].pooled.data(); }

void UNetPlan::load(View<const float, 5> images) {
  const Grid& grid = levels_[0].grid;
  const std::int64_t channels = images.shape(4), stored = kernels::stored_channels(channels);
  const std::int64_t depth = size_[0];
  for_each_chunk(grid.rows(), 1, chunks_of(grid.rows(), 1), [&](std::int64_t, std::int64_t, Range rows) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t y = row % grid.y, plane = row / grid.y;
      const std::int64_t image = plane / depth, z = plane % depth;
      float* const out = input_.data() + grid.offset(row, stored);
      const bool inside = z < images.shape(1) && y < images.shape(2);
      for (std::int64_t x = 0; x < grid.x; ++x) {
        for (std::int64_t c = 0; c < channels; ++c) {
          out[x * stored + c] = inside && x < images.shape(3) ? images(image, z, y, x, c) : 0.0F;
        }
      }
    }
  });
}

void UNetPlan::run_node(Node& node, const float* input, Channels<float> out, const Pass* pass) {
  float* const before = groups_ > 0 ? node.before.data() : scratch_.data();
  if (pass == nullptr || !batch_norm_) return node.block.forward(input, before, out);
  const auto statistics = [&](std::size_t entry) { return part(pass->gradients, layout_->arrays.entry(entry)); };
  node.block.forward_training(input, before, out, statistics(node.entries->mean), statistics(node.entries->variance),
                              pass->scale * static_cast<double>(n_), pass->sum_over_ranks);
}

void UNetPlan::run(const Pass* pass) {
  for (std::size_t number = 0; number < levels_.size(); ++number) {
    Level& level = levels_[number];
    const Channels<float> skip{level.joined.data(), joined_stored(number)};
    run_node(level.encoder[0], input_of(number), {level.encoder_inner.data(), level.channels}, pass);
    run_node(level.encoder[1], level.encoder_inner.data(), skip, pass);
    if (number < lowest()) {
      level.pool[0].forward({skip.data, skip.stored}, levels_[number + 1].pooled.data());
    } else if (pass != nullptr && dropout_ > 0) {
      apply_dropout(level.grid, level.channels, dropout_, seed_, pass->batch.examples, level.joined.data());
    }
  }
  for (std::size_t number = lowest(); number > 0; --number) {
    Level& level = levels_[number - 1];
    level.up[0].forward(output_of(number), level.joined.data());
    if (groups_ > 0) clear_halo(level.grid, level.channels, level.decoder_inner());  // this memory held a gradient before
    run_node(level.decoder[0], level.joined.data(), {level.decoder_inner(), level.channels}, pass);
    run_node(level.decoder[1], level.decoder_inner(), {level.decoder_out(), level.channels}, pass);
  }
}

void UNetPlan::forward(View<const float, 5> images) {
  load(images);
  run(nullptr);
  head_[0].forward(output_of(0));
}

LossReport UNetPlan::loss_and_gradients(const UNetBatch& batch, const SegmentationLoss& loss, std::span<float> gradients,
                                        double scale, const OnReady& on_ready, const SumOverRanks& sum_over_ranks) {
  const Pass pass{batch, gradients, scale, on_ready, sum_over_ranks};
  load(batch.images);
  run(&pass);
  for (std::size_t entry = layout_->head + 2; entry < layout_->arrays.entries().size(); ++entry) ready(pass, entry);
  const LossReport report = head_[0].forward(output_of(0), loss, batch.truth, scale, sum_over_ranks);
  backward(pass);
  return report;
}

void UNetPlan::ready(const Pass& pass, std::size_t entry) {
  if (pass.on_ready) pass.on_ready(entry);
}

void UNetPlan::backward_node(Node& node, const float* input, Channels<const float> grad, float* scratch, float* out_input_grad,
                             const Pass& pass) {
  clear_halo(node.block.grid(), node.block.channels(), scratch);
  node.block.backward(input, node.before.data(), grad, scratch, out_input_grad,
                      block_part(pass.gradients, *layout_, *node.entries, batch_norm_), pass.sum_over_ranks);
  if (batch_norm_) {
    ready(pass, node.entries->shift);
    ready(pass, node.entries->scale);
  } else {
    ready(pass, node.entries->biases);
  }
  ready(pass, node.entries->weights);
}

void UNetPlan::backward(const Pass& pass) {
  const auto of = [&](std::size_t entry) { return part(pass.gradients, layout_->arrays.entry(entry)); };
  float* grad = grads_[0].data();  // gradient by the output of the next layer of the backward pass
  float* other = grads_[1].data();
  head_[0].backward(output_of(0), grad, of(layout_->head), of(layout_->head + 1));
  ready(pass, layout_->head + 1);
  ready(pass, layout_->head);
  for (std::size_t number = 0; number < lowest(); ++number) {
    Level& level = levels_[number];
    backward_node(level.decoder[1], level.decoder_inner(), {grad, level.channels}, grad, other, pass);
    backward_node(level.decoder[0], level.joined.data(), {other, level.channels}, other, level.joined_grad(), pass);
    level.up[0].backward_weights(output_of(number + 1), level.joined_grad(), of(layout_->up[number]).data(),
                                 of(layout_->up[number] + 1).data());
    ready(pass, layout_->up[number] + 1);
    ready(pass, layout_->up[number]);
    level.up[0].backward_data(level.joined_grad(), grad);
  }
  for (std::size_t number = levels_.size(); number > 0; --number) {
    Level& level = levels_[number - 1];
    Channels<const float> output_grad{grad, level.channels};
    if (number - 1 == lowest()) {
      if (dropout_ > 0) apply_dropout(level.grid, level.channels, dropout_, seed_, pass.batch.examples, grad);
    } else {
      level.pool[0].backward({level.joined.data(), joined_stored(number - 1)}, levels_[number].pooled.data(), grad,
                             {level.joined_grad(), joined_stored(number - 1)});
      output_grad = {level.joined_grad(), joined_stored(number - 1)};
    }
    backward_node(level.encoder[1], level.encoder_inner.data(), output_grad, grad, other, pass);
    backward_node(level.encoder[0], input_of(number - 1), {other, level.channels}, other, number > 1 ? grad : nullptr, pass);
  }
}

View<const float, 5> UNetPlan::probabilities() const noexcept {
  const auto values = head_[0].probabilities();
  const std::int64_t classes = std::ssize(values) / (n_ * volume<3>(size_));
  return {values.data(), {n_, size_[0], size_[1], size_[2], classes}};
}

std::size_t UNetPlan::bytes() const noexcept {
  std::int64_t floats = input_.size() + scratch_.size() + grads_[0].size() + grads_[1].size();
  for (const Level& level : levels_) {
    for (const AlignedBuffer<float>* buffer : {&level.pooled, &level.encoder_inner, &level.joined, &level.decoded}) {
      floats += buffer->size();
    }
    for (const auto* nodes : {&level.encoder, &level.decoder}) {
      for (const Node& node : *nodes) floats += node.before.size();
    }
  }
  return static_cast<std::size_t>(floats) * sizeof(float) + head_[0].bytes();
}

std::size_t UNetPlan::bytes_of(std::int64_t n, const Vec3& size, Passes passes, const UNetOptions& options) {
  const bool training = passes == Passes::all;
  const Grid grid = grid_of(n, size, 0, options);
  std::int64_t floats = input_floats(grid, options), largest = 0;
  for (int level = 0; level < options.depth; ++level) {
    const LevelFloats here = floats_of(grid_of(n, size, level, options), level, options);
    floats += (1 + (training ? here.blocks : 0)) * here.output + here.pooled + here.joined + here.decoded;
    largest = std::max(largest, here.output);
  }
  const std::int64_t shared = (training ? 2 : 1) * largest;  // grads_, or scratch_
  return static_cast<std::size_t>(floats + shared) * sizeof(float) +
         SegmentationHead::bytes_of(grid, n, features_of(options, 0), options.classes, options.output);
}

std::string UNetPlan::kernel_names() const {
  std::string names;
  for (std::size_t number = 0; number < levels_.size(); ++number) {
    for (const auto* nodes : {&levels_[number].encoder, &levels_[number].decoder}) {
      for (std::size_t half = 0; half < nodes->size(); ++half) {
        names += str_cat(names.empty() ? "" : "; ", nodes == &levels_[number].encoder ? "encoder" : "decoder", number, "/conv_",
                         half == 0 ? "a" : "b", ": ", (*nodes)[half].block.convolution().kernel());
      }
    }
  }
  return names;
}

}  // namespace floodtide::nn
