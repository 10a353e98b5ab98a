// SPDX-License-Identifier: Apache-2.0
#include "kernels/bf16_chain/bf16_chain.hpp"

#include <algorithm>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "kernels/transpose_weights.hpp"

namespace floodtide::kernels {
namespace {

constexpr std::int64_t kChunks = 8;  // of planes, with separate sums of gradients

/// Return the floats of memory for bfloat16 numbers, in whole cache lines.
std::int64_t floats_of(std::int64_t halves) { return (halves + bf16::kTile - 1) / bf16::kTile * bf16::kPanel; }

bf16::Layout layout_of(const Vec3& size, std::int64_t channels) { return {size[0], size[1], size[2], channels}; }

}  // namespace

const bf16::Kernels* Bf16Chain::kernels_of(Isa level) noexcept {
#if defined(__x86_64__)
  if (level >= Isa::avx512 && amx_missing().empty()) return &bf16::kAmx;
#endif
  static_cast<void>(level);
  return nullptr;
}

std::string Bf16Chain::unsupported(std::int64_t channels, Isa level) {
  if (level < Isa::avx512) return str_cat("needs AMX, the level is ", name(level));
  if (std::string reason = amx_missing(); !reason.empty()) return reason;
  if (channels % bf16::kTile != 0) return str_cat(channels, " feature maps, expected a multiple of ", bf16::kTile);
  return "";
}

Bf16Chain::Bf16Chain(const Vec3& size, std::int64_t channels, const bf16::Kernels& kernels)
    : layout_(layout_of(size, channels)), kernels_(&kernels), no_bias_(channels) {}

std::int64_t Bf16Chain::activation_size(const Vec3& size, std::int64_t channels) {
  return layout_of(size, channels).activation_size();
}

void Bf16Chain::pack(const float* weights, Weights& out_packed) const {
  if (out_packed.size() == 0) out_packed = Weights(layout_.weights_size());
  parallel_for(bf16::kTaps, [&](std::int64_t tap) { kernels_->pack({layout_, tap, tap + 1, weights, out_packed.data()}); });
}

void Bf16Chain::pack_transposed(const float* weights, Weights& out_packed, Workspace& workspace) const {
  float* const transposed = workspace.floats(layout_.weights_size());
  transpose_weights(weights, bf16::kTaps, layout_.channels, layout_.channels, transposed);
  pack(transposed, out_packed);
}

void Bf16Chain::round(const float* input, std::uint16_t* out) const {
  parallel_for(layout_.z, [&](std::int64_t plane) { kernels_->round({layout_, plane, input, out}); });
}

void Bf16Chain::convolve(const std::uint16_t* input, const Weights& packed, const Results& results) const {
  const float* const bias = results.bias != nullptr ? results.bias : no_bias_.data();
  parallel_for(layout_.z, [&](std::int64_t plane) {
    kernels_->convolve({layout_, plane, input, packed.data(), bias, results.mask, results.residual, results.out,
                        results.out_rounded, results.rectify});
  });
}

void Bf16Chain::backward_weights(const std::uint16_t* input, const std::uint16_t* output_grad, float* out_weight_grad,
                                 float* out_bias_grad, Workspace& workspace) const {
  const std::int64_t channels = layout_.channels, count = layout_.weights_size(), chunks = std::min(kChunks, layout_.z);
  const std::int64_t scratch_floats = floats_of(layout_.scratch_size());
  float* const sums = workspace.floats(chunks * (count + channels) + num_threads() * scratch_floats);
  float* const bias_sums = sums + chunks * count;
  float* const scratch = bias_sums + chunks * channels;
  parallel_for(chunks, [&](std::int64_t chunk) {
    const Range planes = chunk_range(layout_.z, chunks, chunk);
    kernels_->gradient({layout_, planes.begin, planes.end, input, output_grad, sums + chunk * count,
                        bias_sums + chunk * channels,
                        reinterpret_cast<std::uint16_t*>(scratch + worker_index() * scratch_floats)});
  });
  parallel_for(bf16::kTaps * channels, [&](std::int64_t row) {  // tap, out
    float* const total = sums + row * channels;
    for (std::int64_t chunk = 1; chunk < chunks; ++chunk) {
      for (std::int64_t in = 0; in < channels; ++in) total[in] += total[chunk * count + in];
    }
    float* const to = out_weight_grad + row / channels * channels * channels + row % channels;
    for (std::int64_t in = 0; in < channels; ++in) to[in * channels] += total[in];
  });
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::int64_t out = 0; out < channels; ++out) out_bias_grad[out] += bias_sums[chunk * channels + out];
  }
}

}  // namespace floodtide::kernels
