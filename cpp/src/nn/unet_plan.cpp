// SPDX-License-Identifier: Apache-2.0
#include "nn/unet_plan.hpp"

#include <algorithm>
#include <cstring>

#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::nn {
namespace {

using kernels::Passes;

/// Sets to zero all parts of the halo of an activation that a convolution reads. The interior does not change. Convolutions of
/// a planar grid read one row of the planes outside: the first.
void clear_halo(const Grid& grid, std::int64_t channels, float* activation) {
  const std::int64_t row_floats = (grid.x + 2) * channels, plane_rows = grid.y + 2, planes = grid.z + 2;
  parallel_for(grid.examples * planes, [&](std::int64_t plane) {
    float* const begin = activation + plane * plane_rows * row_floats;
    const bool outside = plane % planes == 0 || plane % planes == planes - 1;
    if (outside && grid.planar) {
      if (plane == 0) std::fill_n(begin, row_floats, 0.0F);
      return;
    }
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

/// Set a share of the values of an activation to zero, and multiply the other values by 1 / (1 - share).
///
/// The choice depends only on (seed, number of the example, position in the image). The backward pass is the same function,
/// applied to the gradients.
///
/// @param examples one number per image of the grid
/// Source: Srivastava et al., JMLR 15 (2014).
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

/// Return the voxels of a level, for n images whose size is `size` on level 0.
Grid grid_of(std::int64_t n, Vec3 size, int level, const UNetOptions& options) {
  for (int above = 0; above < level; ++above) {
    for (std::size_t axis = 0; axis < 3; ++axis) size[axis] /= pool_of(options, above)[axis];
  }
  return is_planar(options) ? Grid{1, n * size[0], size[1], size[2], true} : Grid{n, size[0], size[1], size[2]};
}

/// Sizes of the buffers of a plan, in floats.
struct PlanFloats {
  std::int64_t bottom = 0, input = 0, before_grad = 0, below = 0;
  std::int64_t grads[2] = {0, 0};
  std::vector<std::int64_t> levels;  // of one activation of each level

  PlanFloats(std::int64_t n, const Vec3& size, bool training, const UNetOptions& options) {
    for (int level = 0; level < options.depth; ++level) {
      const Grid grid = grid_of(n, size, level, options);
      const std::int64_t channels = features_of(options, level), units = ConvBlock::band_units(grid, channels, 1);
      const bool last = level + 1 == options.depth;
      const std::int64_t before = level > 0 ? features_of(options, level - 1) : kernels::stored_channels(options.in_channels);
      levels.push_back(grid.floats(channels));
      const Grid band = band_grid(grid, units);
      input = std::max({input, band.floats(before), band.floats((last ? 1 : 2) * channels)});
      if (last) bottom = levels.back();
      if (training && level + 2 < options.depth) {
        const Grid next = band_grid(grid_of(n, size, level + 1, options), units);
        below = std::max(below, next.floats(features_of(options, level + 1)));
      }
      if (!training) continue;
      before_grad = std::max(before_grad, band.floats(channels));
      grads[level % 2] = std::max(grads[level % 2], levels.back());
    }
  }

  [[nodiscard]] std::int64_t total(bool training) const noexcept {
    std::int64_t sum = bottom + input + before_grad + below + grads[0] + grads[1];
    for (std::size_t level = 0; level < levels.size(); ++level) {
      const bool trained = training && level + 1 < levels.size();
      sum += (trained ? 5 : 2) * levels[level];  // of its convolutions, and `joined`
    }
    return sum;
  }
};

/// Calls body(units) for all bands of a block.
template <class Body>
void for_each_band(const ConvBlock& block, Body body) {
  const std::int64_t units = block.band_units();
  for (std::int64_t begin = 0; begin < block.grid().units(); begin += units) body(Range{begin, begin + units});
}

/// Copies `count` channels of the interior of an activation, a multiple of 16.
void copy_channels(const Grid& grid, std::int64_t count, Channels<const float> from, Channels<float> to) {
  for_each_row(grid.rows(), [&](std::int64_t row) {
    const float* source = from.data + grid.offset(row, from.stored);
    float* target = to.data + grid.offset(row, to.stored);
    for (std::int64_t x = 0; x < grid.x; ++x, source += from.stored, target += to.stored) {
      for (std::int64_t c = 0; c < count; c += 16) std::memcpy(target + c, source + c, 16 * sizeof(float));
    }
  });
}

}  // namespace

struct UNetPlan::Pass {
  const SampleBatch& batch;
  std::span<float> gradients;
  double scale;
  const OnReady& on_ready;
  const SumOverRanks& sum_over_ranks;

  void ready(std::size_t entry) const {
    if (on_ready) on_ready(entry);
  }
};

UNetPlan::UNetPlan(std::int64_t n, const Vec3& size, int groups, const UNetOptions& options, const UNetLayout& layout)
    : n_(n),
      size_(size),
      groups_(groups),
      options_(&options),
      layout_(&layout),
      head_(grid_of(n, size, 0, options), n, features_of(options, 0), options.classes, options.output) {
  levels_.reserve(static_cast<std::size_t>(options.depth));
  for (int level = 0; level < options.depth; ++level) add_level(level);
  const PlanFloats floats(n, size, groups > 0, options);
  bottom_ = reserve(floats.bottom);
  input_ = reserve(floats.input);
  before_grad_ = reserve(floats.before_grad);
  below_ = reserve(floats.below);
  for (std::size_t parity : {0, 1}) grads_[parity] = reserve(floats.grads[parity]);
}

AlignedBuffer<float> UNetPlan::reserve(std::int64_t floats) {
  floats_ += floats;
  return AlignedBuffer<float>(floats);
}

void UNetPlan::add_level(int level) {
  const UNetOptions& options = *options_;
  const auto number = static_cast<std::size_t>(level);
  Level& here = levels_.emplace_back();
  here.grid = grid_of(n_, size_, level, options);
  here.channels = features_of(options, level);
  const std::int64_t floats = here.grid.floats(here.channels);
  const auto node = [&](const BlockEntries& entries, float* before) {
    return Node{
        &entries, {here.grid, kernel_of(options, level), entries.in, entries.out, std::max(groups_, 1), options}, before};
  };
  const auto next_memory = [&] { return here.memory.emplace_back(reserve(floats)).data(); };
  for (std::size_t half = 0; half < 2; ++half) {
    here.encoder.push_back(node(layout_->encoder[2 * number + half], next_memory()));
  }
  if (level > 0) {
    Level& above = levels_[number - 1];
    const Vec3 pool = pool_of(options, level - 1);
    const Grid& band = here.encoder[0].block.band();
    above.pool.push_back({band_grid(above.grid, band.units()), band, pool, above.channels});
    const Grid below = band_grid(here.grid, above.decoder[0].block.band_units());
    above.up.emplace_back(kernels::UpConvolutionShape{below.examples, below.z, below.y, below.x, here.channels, above.channels,
                                                      pool, 2 * above.channels, above.channels});
  }
  if (level + 1 == options.depth) return;
  for (std::size_t half = 0; half < 2; ++half) {
    here.decoder.push_back(node(layout_->decoder[2 * number + half], groups_ > 0 ? next_memory() : here.encoder[half].before));
  }
  if (groups_ > 0) here.joined = reserve(floats);
}

void UNetPlan::set_parameters(std::span<const float> parameters, Passes passes) {
  const auto of = [&](std::size_t entry) { return part(parameters, layout_->arrays.entry(entry)); };
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    for (auto* nodes : {&levels_[level].encoder, &levels_[level].decoder}) {
      for (Node& node : *nodes) {
        node.block.set_parameters(block_part(parameters, *layout_, *node.entries, options_->batch_norm), passes, workspace_);
      }
    }
    if (level < lowest()) {
      levels_[level].up[0].set_weights(of(layout_->up[level]).data(), of(layout_->up[level] + 1).data(), passes);
    }
  }
  head_.set_weights(of(layout_->head), of(layout_->head + 1));
}

const float* UNetPlan::load_input(std::size_t level, View<const float, 5> images, Range units) {
  if (level > 0) {
    const Level& above = levels_[level - 1];
    const Node& source = above.encoder[1];
    above.pool[0].forward(source.band(units), source.block.affine(units.begin), input_.data());
    return input_.data();
  }
  const Grid& grid = levels_[0].grid;
  const std::int64_t channels = images.shape(4), stored = kernels::stored_channels(channels), depth = size_[0];
  for_each_row(units.size() * grid.unit_rows(), [&](std::int64_t row) {
    const std::int64_t y = row % grid.y, plane = (units.begin * grid.unit_rows() + row) / grid.y;
    const std::int64_t image = plane / depth, z = plane % depth;
    float* const out = input_.data() + grid.offset(row, stored);
    const std::int64_t inside = z < images.shape(1) && y < images.shape(2) ? images.shape(3) : 0;
    const float* const source = inside > 0 ? &images(image, z, y, 0, 0) : nullptr;
    std::fill_n(out, grid.x * stored, 0.0F);
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t x = 0; x < inside; ++x) out[x * stored + c] = source[x * channels + c];
    }
  });
  return input_.data();
}

const float* UNetPlan::load_output(const Node& node, Range units) {
  if (node.block.folded()) return node.band(units);
  node.output(units, {input_.data(), node.block.channels()});
  return input_.data();
}

const float* UNetPlan::output_of(std::size_t level, Range units) {
  const Level& here = levels_[level];
  if (level == lowest()) return bottom_.data() + here.encoder[1].begin(units);
  if (here.decoder[1].block.folded()) return here.decoder[1].band(units);
  here.decoder[1].output(units, {below_.data(), here.channels});
  return below_.data();
}

template <class Load>
void UNetPlan::run_node(Node& node, const Pass* pass, Load load) {
  ConvBlock& block = node.block;
  clear_halo(block.band(), block.convolution().shape().stored_in(), input_.data());
  for_each_band(block, [&](Range units) {
    block.convolve(load(units), node.band(units), workspace_);
    if (pass != nullptr) block.sum_outputs(units, node.band(units));
  });
  if (pass == nullptr) return;
  block.finish_statistics(block_part(pass->gradients, *layout_, *node.entries, options_->batch_norm),
                          pass->scale * static_cast<double>(n_), pass->sum_over_ranks);
}

void UNetPlan::run(View<const float, 5> images, const Pass* pass) {
  for (std::size_t number = 0; number < levels_.size(); ++number) {
    Level& level = levels_[number];
    run_node(level.encoder[0], pass, [&](Range units) { return load_input(number, images, units); });
    run_node(level.encoder[1], pass, [&](Range units) { return load_output(level.encoder[0], units); });
  }
  const Level& last = levels_.back();
  const Node& source = last.encoder[1];
  for_each_band(source.block,
                [&](Range units) { source.output(units, {bottom_.data() + source.begin(units), last.channels}); });
  if (pass != nullptr && options_->dropout > 0) {
    apply_dropout(last.grid, last.channels, options_->dropout, options_->seed, pass->batch.examples, bottom_.data());
  }
  for (std::size_t number = lowest(); number > 0; --number) {
    Level& level = levels_[number - 1];
    const std::int64_t channels = level.channels;
    run_node(level.decoder[0], pass, [&](Range units) {
      level.encoder[1].output(units, {input_.data(), 2 * channels});
      level.up[0].forward(output_of(number, units), input_.data());
      if (pass != nullptr) {
        copy_channels(level.decoder[0].block.band(), channels, {input_.data() + channels, 2 * channels},
                      {level.joined.data() + level.decoder[0].begin(units), channels});
      }
      return input_.data();
    });
    run_node(level.decoder[1], pass, [&](Range units) { return load_output(level.decoder[0], units); });
  }
}

HeadInput UNetPlan::head_input() const noexcept {
  if (lowest() == 0) return {bottom_.data(), nullptr};
  const Node& last = levels_[0].decoder[1];
  return {last.before, last.block.folded() ? nullptr : &last.block};
}

void UNetPlan::forward(View<const float, 5> images) {
  run(images, nullptr);
  head_.forward(head_input());
}

LossReport UNetPlan::loss_and_gradients(const SampleBatch& batch, const SegmentationLoss& loss, std::span<float> gradients,
                                        double scale, const OnReady& on_ready, const SumOverRanks& sum_over_ranks) {
  const Pass pass{batch, gradients, scale, on_ready, sum_over_ranks};
  run(batch.images, &pass);
  for (std::size_t entry = layout_->head + 2; entry < layout_->arrays.entries().size(); ++entry) pass.ready(entry);
  const LossReport report = head_.forward(head_input(), loss, batch.truth, scale, sum_over_ranks);
  backward_head(pass);
  for (std::size_t level = 0; level < lowest(); ++level) backward_decoder(level, pass);
  for (std::size_t level = levels_.size(); level > 0; --level) backward_encoder(level - 1, pass);
  return report;
}

template <class Load, class After>
void UNetPlan::backward_node(Node& node, const float* grad, const Pass& pass, Load load, After after) {
  ConvBlock& block = node.block;
  const BlockParameters<float> gradients = block_part(pass.gradients, *layout_, *node.entries, options_->batch_norm);
  block.finish_gradients(gradients, pass.sum_over_ranks);
  clear_halo(block.band(), block.convolution().shape().stored_in(), input_.data());
  clear_halo(block.band(), block.channels(), before_grad_.data());
  for_each_band(block, [&](Range units) {
    block.gradient(units, node.band(units), grad + node.begin(units), before_grad_.data());
    load(units);
    block.backward_weights(input_.data(), before_grad_.data(), gradients, workspace_);
    after(units);
  });
  if (options_->batch_norm) {
    pass.ready(node.entries->shift);
    pass.ready(node.entries->scale);
  } else {
    pass.ready(node.entries->biases);
  }
  pass.ready(node.entries->weights);
}

void UNetPlan::backward_second(std::vector<Node>& pair, float* grad, const Pass& pass) {
  backward_node(
      pair[1], grad, pass, [&](Range units) { load_output(pair[0], units); },
      [&](Range units) {
        pair[1].block.backward_data(before_grad_.data(), grad + pair[1].begin(units), workspace_);
        pair[0].sum_gradients(units, grad);
      });
}

void UNetPlan::backward_head(const Pass& pass) {
  const auto of = [&](std::size_t entry) { return part(pass.gradients, layout_->arrays.entry(entry)); };
  const std::int64_t image_units = levels_[0].grid.units() / n_;
  for (std::int64_t image = 0; image < n_; ++image) {
    head_.backward(image, head_input(), grads_of(0));
    const Range units{image * image_units, (image + 1) * image_units};
    if (lowest() > 0) levels_[0].decoder[1].sum_gradients(units, grads_of(0));
  }
  head_.finish_gradients(of(layout_->head), of(layout_->head + 1));
  pass.ready(layout_->head + 1);
  pass.ready(layout_->head);
}

void UNetPlan::backward_decoder(std::size_t number, const Pass& pass) {
  const auto of = [&](std::size_t entry) { return part(pass.gradients, layout_->arrays.entry(entry)).data(); };
  Level &level = levels_[number], &below = levels_[number + 1];
  Node& first = level.decoder[0];
  Node& source = number + 1 == lowest() ? below.encoder[1] : below.decoder[1];
  const Grid& band = first.block.band();
  const std::int64_t channels = level.channels;
  // Both the input of the first block and the gradient by it: the channels of the encoder, then those from the level below.
  const Channels<float> skip{input_.data(), 2 * channels}, up{input_.data() + channels, 2 * channels};
  backward_second(level.decoder, grads_of(number), pass);
  backward_node(
      first, grads_of(number), pass,
      [&](Range units) {
        level.encoder[1].output(units, skip);
        copy_channels(band, channels, {level.joined.data() + first.begin(units), channels}, up);
      },
      [&](Range units) {
        float* const input_grad = input_.data();
        first.block.backward_data(before_grad_.data(), input_grad, workspace_);
        copy_channels(band, channels, {skip.data, skip.stored}, {level.joined.data() + first.begin(units), channels});
        level.up[0].backward_weights(output_of(number + 1, units), input_grad, of(layout_->up[number]),
                                     of(layout_->up[number] + 1), workspace_);
        level.up[0].backward_data(input_grad, grads_of(number + 1) + source.begin(units));
        if (number + 1 < lowest()) source.sum_gradients(units, grads_of(number + 1));
      });
  pass.ready(layout_->up[number] + 1);
  pass.ready(layout_->up[number]);
}

void UNetPlan::backward_encoder(std::size_t number, const Pass& pass) {
  Level& level = levels_[number];
  float* const grad = number == lowest() ? grads_of(number) : level.joined.data();  // by the output of the level
  if (number == lowest()) {
    if (options_->dropout > 0)
      apply_dropout(level.grid, level.channels, options_->dropout, options_->seed, pass.batch.examples, grad);
    level.encoder[1].sum_gradients({0, level.grid.units()}, grad);
  }
  backward_second(level.encoder, grad, pass);
  Node& first = level.encoder[0];
  backward_node(
      first, grad, pass, [&](Range units) { load_input(number, pass.batch.images, units); },
      [&](Range units) {
        if (number == 0) return;
        Level& above = levels_[number - 1];
        Node& source = above.encoder[1];
        float* const input_grad = input_.data();
        first.block.backward_data(before_grad_.data(), input_grad, workspace_);
        above.pool[0].backward(source.band(units), source.block.affine(units.begin), input_grad,
                               above.joined.data() + source.begin(units));
        source.sum_gradients(units, above.joined.data());
      });
}

View<const float, 5> UNetPlan::probabilities() const noexcept {
  const auto values = head_.probabilities();
  const std::int64_t classes = std::ssize(values) / (n_ * volume<3>(size_));
  return {values.data(), {n_, size_[0], size_[1], size_[2], classes}};
}

std::size_t UNetPlan::bytes_of(std::int64_t n, const Vec3& size, Passes passes, const UNetOptions& options) {
  const bool training = passes == Passes::all;
  const PlanFloats floats(n, size, training, options);
  return static_cast<std::size_t>(floats.total(training)) * sizeof(float) +
         SegmentationHead::bytes_of(grid_of(n, size, 0, options), n, features_of(options, 0), options.classes, options.output);
}

std::string UNetPlan::kernel_names() const {
  std::string names;
  for (const Level& level : levels_) {
    for (const auto* nodes : {&level.encoder, &level.decoder}) {
      for (const Node& node : *nodes) {
        const std::string& weights = layout_->arrays.entry(node.entries->weights).name;  // "encoder0/conv_a/weights"
        names +=
            str_cat(names.empty() ? "" : "; ", weights.substr(0, weights.rfind('/')), ": ", node.block.convolution().kernel());
      }
    }
  }
  return names;
}

}  // namespace floodtide::nn
