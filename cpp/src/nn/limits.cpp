// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/limits.hpp"

#include <algorithm>

#include "kernels/conv3d/shape.hpp"

namespace floodtide::nn {
namespace {

/// Checks options, and names them in messages.
struct Checker {
  std::string_view where;
  ErrorCode code;

  void number(const char* name, std::int64_t value, const Limits& limits) const {
    require_in(limits, value, str_cat(where, ": ", name), code);
  }

  void vector(const char* name, const Vec3& value, const Limits& limits) const {
    const bool inside =
        std::ranges::all_of(value, [&](std::int64_t one) { return limits.contains(static_cast<long double>(one)); });
    if (!inside) raise(code, where, ": ", name, " is ", Show{value}, ", expected ", describe(limits), " along each axis");
  }

  void vectors(const char* name, std::span<const Vec3> values, int wanted, const Limits& limits) const {
    const auto count = std::ssize(values);
    if (count != 1 && count != wanted) raise(code, where, ": there are ", count, ' ', name, ", expected 1 or ", wanted);
    for (const Vec3& value : values) vector(str_cat("one of the ", name).c_str(), value, limits);
  }
};

}  // namespace

void require_valid(const FfnOptions& options, std::string_view where, ErrorCode code) {
  const Checker check{where, code};
  check.number("depth", options.depth, kFfnDepth);
  check.number("features", options.features, kFfnFeatures);
  check.vector("fov", options.fov, kFieldOfView);
  check.vector("deltas", options.deltas, kDelta);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (options.fov[axis] % 2 != 1) {
      raise(code, where, ": fov is ", Show{options.fov},
            ", expected odd sizes (z, y, x): the field of view has a centre voxel");
    }
    if (2 * options.deltas[axis] >= options.fov[axis]) {
      raise(code, where, ": deltas are ", Show{options.deltas}, ", expected 0 to (fov - 1) / 2 with fov ", Show{options.fov});
    }
  }
}

void require_valid(const UNetOptions& options, std::string_view where, ErrorCode code) {
  const Checker check{where, code};
  check.number("in_channels", options.in_channels, kUNetChannels);
  Limits classes = kClasses;
  if (options.output == Output::softmax) classes.minimum = 2;  // the softmax of one class is constant
  check.number("classes", options.classes, classes);
  check.number("depth", options.depth, kUNetDepth);
  check.number("features", options.features, kUNetFeatures);
  if (options.features % kernels::kChannelMultiple != 0) {
    raise(code, where, ": features is ", options.features, ", expected a multiple of ", kernels::kChannelMultiple);
  }
  require_in(kDropout, options.dropout, str_cat(where, ": dropout"), code);
  if (options.synchronised && !options.batch_norm) {
    raise(code, where, ": synchronised statistics are those of batch norm, which is off");
  }
  check.vectors("kernels", options.kernels, options.depth, kKernel);
  for (const Vec3& kernel : options.kernels) {
    if (std::ranges::count(kernel, 2) > 0) {
      raise(code, where, ": one of the kernels is ", Show{kernel}, ", expected 1 or 3 along each axis");
    }
  }
  check.vectors("pools", options.pools, options.depth - 1, kPool);
}

}  // namespace floodtide::nn
