// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/error.hpp"
#include "kernels/conv3d/dnnl_plugin.hpp"
#include "kernels/conv3d/plan.hpp"

// Which convolutions are computed with bfloat16 operands. The rule depends on the shape alone, so that every run of a
// configuration on a processor uses the same kernels. It is from measurements: docs/decisions/20261125-bf16.md.
namespace floodtide::kernels {
namespace {

constexpr std::int64_t kFewestInputs = kChannelMultiple;   // the first layer of a network has one or two
constexpr std::int64_t kFewestOutputs = kChannelMultiple;  // kernels compute 16 at a time
constexpr std::int64_t kShortestRow = 8;                   // the halo of shorter rows costs more than is gained

std::string too_few_inputs(const Conv3dShape& shape) {
  return shape.in_channels < kFewestInputs ? str_cat("fewer than ", kFewestInputs, " input channels") : "";
}

}  // namespace

std::string amx_bf16_avoided(const Conv3dShape& shape) { return too_few_inputs(shape); }

std::string avx512_bf16_avoided(const Conv3dShape& shape) {
  std::string reason = too_few_inputs(shape);
  if (!reason.empty()) return reason;
  if (shape.out_channels < kFewestOutputs) return str_cat("fewer than ", kFewestOutputs, " output channels");
  if (shape.taps() == 1) return "one kernel element: conversions cost what products save";
  if (shape.x < kShortestRow) return str_cat("rows are shorter than ", kShortestRow, " voxels");
  if (dnnl_avoided(shape).empty()) return "not faster than onednn in float32";
  const bool by_winograd = winograd_unsupported(shape).empty() && winograd_avoided(shape).empty();
  const bool narrow_and_planar = shape.kernel_z == 1 && shape.in_channels == 16 && shape.out_channels == 16;
  return by_winograd && !narrow_and_planar ? "not faster than Winograd's kernels in float32" : "";
}

}  // namespace floodtide::kernels
