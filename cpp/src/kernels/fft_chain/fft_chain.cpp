// SPDX-License-Identifier: Apache-2.0
#include "kernels/fft_chain/fft_chain.hpp"

#include <algorithm>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::kernels {
namespace {

constexpr std::int64_t kChannelBlock = 16;
// Groups that a thread multiplies one after another: it fetches the next group while it computes.
constexpr std::int64_t kGroupsOfChunk = 9;

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
#endif
  static_cast<void>(level);
  return nullptr;
}

std::string FftChain::unsupported(const Vec3& size, std::int64_t channels, Isa level) {
  if (kernels_of(level) == nullptr) return str_cat("needs avx512, the level is ", name(level));
  for (const std::int64_t extent : size) {
    if (extent % fft::kTile != 0) {
      return str_cat("the field of view is ", Show{size}, ", expected multiples of ", fft::kTile, " voxels");
    }
  }
  if (channels % kChannelBlock != 0) return str_cat(channels, " feature maps, expected a multiple of ", kChannelBlock);
  return "";
}

FftChain::FftChain(const Vec3& size, std::int64_t channels, std::int64_t layers, const fft::Kernels& kernels)
    : layout_(layout_of(size, channels)), kernels_(&kernels) {
  FLOODTIDE_ASSERT(layers % 2 == 1);
  for (std::int64_t i = 0; i < layers; ++i) {
    layers_.push_back({AlignedBuffer<float>(layout_.weight_floats()), AlignedBuffer<float>(channels)});
  }
  static_cast<void>(thread_scratch(num_threads() * scratch_floats()));
}

std::int64_t FftChain::scratch_floats() const {
  const std::int64_t planes = fft::kPlaneScratchFloats + layout_.plane_floats();
  return (std::max(planes, fft::products_scratch_floats(layout_)) / 16 | 1) * 16;
}

void FftChain::set_weights(std::int64_t layer, const float* weights, const float* bias) {
  Layer& to = layers_[static_cast<std::size_t>(layer)];
  std::copy_n(bias, layout_.channels, to.bias.data());
  parallel_for(layout_.channels / kChannelBlock, [&](std::int64_t block) {
    const std::int64_t begin = block * kChannelBlock;
    kernels_->transform_weights(layout_, weights, begin, begin + kChannelBlock, to.weights.data());
  });
}

void FftChain::multiply(const Layer& layer, float* spectrum) const {
  float* const scratch = thread_scratch(num_threads() * scratch_floats());
  const std::int64_t chunks = (fft::kGroups + kGroupsOfChunk - 1) / kGroupsOfChunk;
  parallel_for(chunks, [&](std::int64_t chunk) {
    const Range groups = chunk_range(fft::kGroups, chunks, chunk);
    kernels_->products(
        {layout_, groups.begin, groups.end, layer.weights.data(), spectrum, scratch + worker_index() * scratch_floats()});
  });
}

void FftChain::forward(const float* input, float* out_stream, Workspace& workspace) const {
  float* const spectrum = workspace.spectrum.data();
  float* const scratch = thread_scratch(num_threads() * scratch_floats());
  const auto at_plane = [&](auto* activation, std::int64_t plane) { return activation + (plane + 1) * layout_.plane_floats(); };
  parallel_for(layout_.planes(), [&](std::int64_t plane) {
    kernels_->forward({layout_, plane, at_plane(input, plane), spectrum, scratch + worker_index() * scratch_floats()});
  });
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    multiply(layers_[i], spectrum);
    const bool last = i + 1 == layers_.size();
    const bool to_stream = i % 2 == 0;  // the other layers are the first half of a residual module
    parallel_for(layout_.planes(), [&](std::int64_t plane) {
      float* const tile = scratch + worker_index() * scratch_floats();
      float* const rectified = tile + fft::kPlaneScratchFloats;
      if (!last) clear_halo(layout_, rectified);
      fft::InverseTask task{};
      task.layout = layout_;
      task.plane = plane;
      task.spectrum = spectrum;
      task.bias = layers_[i].bias.data();
      task.stream = to_stream ? at_plane(out_stream, plane) : nullptr;
      task.add_stream = to_stream && i > 0;
      task.out_rectified = last ? nullptr : rectified;
      task.scratch = tile;
      kernels_->inverse(task);
      if (!last) kernels_->forward({layout_, plane, rectified, spectrum, tile});
    });
  }
}

}  // namespace floodtide::kernels
