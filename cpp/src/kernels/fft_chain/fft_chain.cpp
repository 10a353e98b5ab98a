// SPDX-License-Identifier: Apache-2.0
#include "kernels/fft_chain/fft_chain.hpp"

#include <algorithm>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "kernels/transpose_weights.hpp"

namespace floodtide::kernels {
namespace {

constexpr std::int64_t kChannelBlock = 16;
constexpr std::int64_t kTaps = 27;
constexpr std::int64_t kChunksOfGroups = 45;  // a thread takes consecutive ones, as long as it can
constexpr std::int64_t kChunksOfRows = 24;    // of gradients by weights

fft::Layout layout_of(const Vec3& size, std::int64_t channels) {
  return {size[0] / fft::kTile, size[1] / fft::kTile, size[2] / fft::kTile, channels};
}

/// Sets the halo of a plane to zero.
void clear_halo(const fft::Layout& layout, float* plane) {
  const std::int64_t row = layout.row_stride();
  std::fill_n(plane, row, 0.0F);
  for (std::int64_t y = 1; y <= layout.rows(); ++y) {
    std::fill_n(plane + y * row, layout.channels, 0.0F);
    std::fill_n(plane + (y + 1) * row - layout.channels, layout.channels, 0.0F);
  }
  std::fill_n(plane + (layout.rows() + 1) * row, row, 0.0F);
}

}  // namespace

const fft::Kernels* FftChain::kernels_of(Isa level) noexcept {
#if defined(__x86_64__)
  if (level >= Isa::avx512) return &fft::kAvx512;
  if (level == Isa::avx2) return &fft::kAvx2;
#endif
  static_cast<void>(level);
  return nullptr;
}

std::string FftChain::unsupported(const Vec3& size, std::int64_t channels, Isa level) {
  if (kernels_of(level) == nullptr) return str_cat("needs avx2, the level is ", name(level));
  for (const std::int64_t extent : size) {
    if (extent % fft::kTile != 0) {
      return str_cat("the field of view is ", Show{size}, ", expected multiples of ", fft::kTile, " voxels");
    }
  }
  if (channels % kChannelBlock != 0) return str_cat(channels, " feature maps, expected a multiple of ", kChannelBlock);
  return "";
}

FftChain::FftChain(const Vec3& size, std::int64_t channels, const fft::Kernels& kernels)
    : layout_(layout_of(size, channels)), kernels_(&kernels), no_bias_(channels) {}

std::int64_t FftChain::scratch_floats() const {
  const std::int64_t planes = fft::kPlaneScratchFloats + layout_.plane_floats();
  return (std::max(planes, fft::products_scratch_floats(layout_)) / 16 | 1) * 16;
}

std::int64_t FftChain::Workspace::bytes() const noexcept {
  return static_cast<std::int64_t>(spectrum.span().size_bytes() + transposed_weights.span().size_bytes() +
                                   input_spectrum.span().size_bytes() + products.span().size_bytes() +
                                   plane_sums.span().size_bytes());
}

std::int64_t FftChain::workspace_bytes(const Vec3& size, std::int64_t channels, Passes passes) {
  const fft::Layout layout = layout_of(size, channels);
  const auto float_size = static_cast<std::int64_t>(sizeof(float)), double_size = static_cast<std::int64_t>(sizeof(double));
  if (passes == Passes::forward) return layout.spectrum_floats() * float_size;
  return (2 * layout.spectrum_floats() + kTaps * channels * channels + fft::kGroups * layout.group_products()) * float_size +
         layout.planes() * channels * double_size;
}

FftChain::Workspace FftChain::make_workspace(Passes passes) const {
  Workspace result{AlignedBuffer<float>(layout_.spectrum_floats()), {}, {}, {}, {}};
  if (passes == Passes::forward) return result;
  result.transposed_weights = AlignedBuffer<float>(kTaps * layout_.channels * layout_.channels);
  result.input_spectrum = AlignedBuffer<float>(layout_.spectrum_floats());
  result.products = AlignedBuffer<float>(fft::kGroups * layout_.group_products());
  result.plane_sums = AlignedBuffer<double>(layout_.planes() * layout_.channels);
  return result;
}

AlignedBuffer<float> FftChain::transformed(const float* weights) const {
  AlignedBuffer<float> result(fft::kGroups * layout_.group_weight_floats());
  parallel_for(kChunksOfGroups, [&](std::int64_t chunk) {
    const Range groups = chunk_range(fft::kGroups, kChunksOfGroups, chunk);
    kernels_->transform_weights(layout_, weights, groups.begin, groups.end, result.data());
  });
  return result;
}

void FftChain::begin(const float* input, Workspace& workspace) const {
  float* const scratch = workspace.scratch.floats(num_threads() * scratch_floats());
  parallel_for(layout_.planes(), [&](std::int64_t plane) {
    const float* const here = input + (plane + 1) * layout_.plane_floats();
    kernels_->forward({layout_, plane, here, workspace.spectrum.data(), scratch + worker_index() * scratch_floats()});
    sum(plane, here, workspace);
  });
}

void FftChain::sum(std::int64_t plane, const float* gradients, Workspace& workspace) const {
  if (workspace.plane_sums.size() == 0) return;
  kernels_->sum_plane(layout_, gradients, workspace.plane_sums.data() + plane * layout_.channels);
}

void FftChain::multiply(fft::ProductsTask task, Workspace& workspace) const {
  float* const scratch = workspace.scratch.floats(num_threads() * scratch_floats());
  task.layout = layout_;
  task.spectrum = workspace.spectrum.data();
  parallel_for(kChunksOfGroups, [&](std::int64_t chunk) {
    const Range groups = chunk_range(fft::kGroups, kChunksOfGroups, chunk);
    fft::ProductsTask here = task;
    here.group_begin = groups.begin;
    here.group_end = groups.end;
    here.scratch = scratch + worker_index() * scratch_floats();
    kernels_->products(here);
  });
}

void FftChain::multiply(const AlignedBuffer<float>& transformed, Workspace& workspace) const {
  fft::ProductsTask task{};
  task.transformed = transformed.data();
  multiply(task, workspace);
}

void FftChain::multiply(const float* weights, Workspace& workspace) const {
  fft::ProductsTask task{};
  task.weights = weights;
  multiply(task, workspace);
}

void FftChain::backward(const LayerGradients& layer, Workspace& workspace) const {
  const std::int64_t channels = layout_.channels;
  FLOODTIDE_ASSERT(workspace.transposed_weights.size() == kTaps * channels * channels);
  float* const scratch = workspace.scratch.floats(num_threads() * scratch_floats());
  parallel_for(layout_.planes(), [&](std::int64_t plane) {
    kernels_->forward({layout_, plane, layer.input + (plane + 1) * layout_.plane_floats(), workspace.input_spectrum.data(),
                       scratch + worker_index() * scratch_floats(),
                       layer.on_input == Activation::relu ? fft::Inputs::rectified_tiles : fft::Inputs::tiles});
  });
  transpose_weights(layer.weights, kTaps, channels, channels, workspace.transposed_weights.data());
  fft::ProductsTask task{};
  task.weights = workspace.transposed_weights.data();
  task.layer_input = workspace.input_spectrum.data();
  task.weight_products = workspace.products.data();
  multiply(task, workspace);
  parallel_for(kChunksOfRows, [&](std::int64_t chunk) {
    const Range rows = chunk_range(3 * channels, kChunksOfRows, chunk);
    kernels_->weight_gradients({layout_, rows.begin, rows.end, workspace.products.data(), layer.weight_grad});
  });
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    double sum = 0;
    for (std::int64_t plane = 0; plane < layout_.planes(); ++plane) {
      sum += workspace.plane_sums.data()[plane * channels + channel];
    }
    layer.bias_grad[channel] += static_cast<float>(sum);
  }
}

void FftChain::finish(const Results& results, Workspace& workspace) const {
  float* const spectrum = workspace.spectrum.data();
  float* const scratch = workspace.scratch.floats(num_threads() * scratch_floats());
  const float* const bias = results.bias != nullptr ? results.bias : no_bias_.data();
  parallel_for(layout_.planes(), [&](std::int64_t plane) {
    const auto at_plane = [&](auto* activation) {
      return activation == nullptr ? nullptr : activation + (plane + 1) * layout_.plane_floats();
    };
    float* const tile = scratch + worker_index() * scratch_floats();
    float* rectified = at_plane(results.out_rectified);
    if (results.next == Next::rectified && rectified == nullptr) {
      rectified = tile + fft::kPlaneScratchFloats;
      clear_halo(layout_, rectified);
    }
    float* const out = at_plane(results.out);
    kernels_->inverse(
        {layout_, plane, spectrum, bias, at_plane(results.mask), at_plane(results.residual), out, rectified, tile});
    if (results.next == Next::nothing) return;
    kernels_->forward({layout_, plane, results.next == Next::out ? out : rectified, spectrum, tile});
    if (results.next == Next::out) sum(plane, out, workspace);
  });
}

}  // namespace floodtide::kernels
