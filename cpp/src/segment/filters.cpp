// SPDX-License-Identifier: Apache-2.0
#include "segment/filters.hpp"

#include <cmath>
#include <numeric>
#include <vector>

#include "floodtide/base/parallel.hpp"

namespace floodtide::segment {
namespace {

/// Filter weights of odd length, with the centre in the middle. Symmetric weights multiply sums of mirrored voxels, and
/// antisymmetric weights multiply differences, the farthest pair first. This is the order of additions in scipy, which affects
/// the rounding of the result.
struct Kernel {
  std::vector<double> weights;
  bool antisymmetric = false;
  [[nodiscard]] std::int64_t radius() const { return static_cast<std::int64_t>(weights.size() / 2); }
};

/// Return the voxel at position `i` of a line of `n` voxels that is continued by mirroring: d c b a | a b c d | d c b a.
std::int64_t reflect(std::int64_t i, std::int64_t n) {
  const std::int64_t period = 2 * n;
  const std::int64_t j = ((i % period) + period) % period;
  return j < n ? j : period - 1 - j;
}

/// Computes out[x] = w[0] centre[x] + sum over j of (before[j][x] +- after[j][x]) w[j], from the largest j to 1.
void filter_row(const Kernel& kernel, const double* const* before, const double* centre, const double* const* after,
                std::int64_t count, double* sums, float* out) {
  const std::int64_t radius = kernel.radius();
  const double middle = kernel.weights[static_cast<std::size_t>(radius)];
  for (std::int64_t x = 0; x < count; ++x) sums[x] = centre[x] * middle;
  for (std::int64_t j = radius; j >= 1; --j) {
    const double weight = kernel.weights[static_cast<std::size_t>(radius - j)];
    const double* low = before[j];
    const double* high = after[j];
    if (kernel.antisymmetric) {
      for (std::int64_t x = 0; x < count; ++x) sums[x] += (low[x] - high[x]) * weight;
    } else {
      for (std::int64_t x = 0; x < count; ++x) sums[x] += (low[x] + high[x]) * weight;
    }
  }
  for (std::int64_t x = 0; x < count; ++x) out[x] = static_cast<float>(sums[x]);
}

/// Filters along the last axis. Lines are continued on both sides.
void filter_x(View<const float, 3> in, const Kernel& kernel, View<float, 3> out) {
  const std::int64_t nx = in.shape(2);
  const std::int64_t radius = kernel.radius();
  parallel_for(in.shape(0), [&](std::int64_t z) {
    std::vector<double> line(static_cast<std::size_t>(nx + 2 * radius));
    std::vector<double> sums(static_cast<std::size_t>(nx));
    std::vector<const double*> before(static_cast<std::size_t>(radius + 1));
    std::vector<const double*> after(static_cast<std::size_t>(radius + 1));
    const double* centre = line.data() + radius;
    for (std::int64_t j = 0; j <= radius; ++j) {
      before[static_cast<std::size_t>(j)] = centre - j;
      after[static_cast<std::size_t>(j)] = centre + j;
    }
    for (std::int64_t y = 0; y < in.shape(1); ++y) {
      const float* row = &in(z, y, 0);
      for (std::int64_t i = 0; i < nx + 2 * radius; ++i) line[static_cast<std::size_t>(i)] = row[reflect(i - radius, nx)];
      filter_row(kernel, before.data(), centre, after.data(), nx, sums.data(), &out(z, y, 0));
    }
  });
}

/// Filters along axis 0 or 1. A plane has a constant position on the other of these two axes, and `lines` rows along x.
void filter_rows(View<const float, 3> in, std::size_t axis, const Kernel& kernel, View<float, 3> out) {
  const std::int64_t nx = in.shape(2);
  const std::int64_t lines = in.shape(axis);
  const std::int64_t radius = kernel.radius();
  const auto row = [axis](auto view, std::int64_t plane, std::int64_t line) {
    return axis == 0 ? &view(line, plane, 0) : &view(plane, line, 0);
  };
  parallel_for(in.shape(1 - axis), [&](std::int64_t plane) {
    std::vector<double> values(static_cast<std::size_t>(lines * nx));
    std::vector<double> sums(static_cast<std::size_t>(nx));
    std::vector<const double*> before(static_cast<std::size_t>(radius + 1));
    std::vector<const double*> after(static_cast<std::size_t>(radius + 1));
    for (std::int64_t line = 0; line < lines; ++line) {
      const float* source = row(in, plane, line);
      std::copy(source, source + nx, values.begin() + line * nx);
    }
    for (std::int64_t line = 0; line < lines; ++line) {
      for (std::int64_t j = 0; j <= radius; ++j) {
        before[static_cast<std::size_t>(j)] = values.data() + reflect(line - j, lines) * nx;
        after[static_cast<std::size_t>(j)] = values.data() + reflect(line + j, lines) * nx;
      }
      filter_row(kernel, before.data(), values.data() + line * nx, after.data(), nx, sums.data(), row(out, plane, line));
    }
  });
}

/// Filters along one axis. `in` and `out` may be the same memory: lines are copied before they are filtered.
void filter_axis(View<const float, 3> in, std::size_t axis, const Kernel& kernel, View<float, 3> out) {
  if (axis == 2) {
    filter_x(in, kernel, out);
  } else {
    filter_rows(in, axis, kernel, out);
  }
}

/// Return the sum of fewer than 129 doubles in NumPy's order: eight partial sums, which are added in pairs, then the rest.
double numpy_sum(const std::vector<double>& values) {
  if (values.size() < 8) return std::accumulate(values.begin(), values.end(), 0.0);
  std::array<double, 8> r{};
  const std::size_t whole = values.size() - values.size() % 8;
  for (std::size_t i = 0; i < whole; ++i) r[i % 8] += values[i];
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (std::size_t i = whole; i < values.size(); ++i) sum += values[i];
  return sum;
}

Kernel gaussian_kernel(double sigma) {
  constexpr double kTruncate = 4.0;
  const auto radius = static_cast<std::int64_t>(kTruncate * sigma + 0.5);
  Kernel kernel;
  for (std::int64_t i = -radius; i <= radius; ++i) {
    kernel.weights.push_back(std::exp(-0.5 / (sigma * sigma) * static_cast<double>(i * i)));
  }
  const double sum = numpy_sum(kernel.weights);
  for (double& weight : kernel.weights) weight /= sum;
  return kernel;
}

}  // namespace

Tensor<float, 3> sobel_magnitude(View<const float, 3> image, Axes axes) {
  const Kernel difference{{-1.0, 0.0, 1.0}, true};
  const Kernel smooth{{1.0, 2.0, 1.0}, false};
  Tensor<float, 3> derivative(image.shape());
  Tensor<float, 3> magnitude(image.shape());
  for (const std::size_t axis : axes) {
    filter_axis(image, axis, difference, derivative.view());
    for (const std::size_t other : axes) {
      if (other != axis) filter_axis(derivative.view(), other, smooth, derivative.view());
    }
    for (std::int64_t i = 0; i < derivative.size(); ++i) {
      magnitude.data()[i] += derivative.data()[i] * derivative.data()[i];
    }
  }
  for (float& value : magnitude.span()) value = std::sqrt(value);
  return magnitude;
}

Tensor<float, 3> gaussian_filter(View<const float, 3> image, double sigma, Axes axes) {
  const Kernel kernel = gaussian_kernel(sigma);
  Tensor<float, 3> out(image.shape());
  View<const float, 3> in = image;
  for (const std::size_t axis : axes) {
    filter_axis(in, axis, kernel, out.view());
    in = out.view();
  }
  return out;
}

}  // namespace floodtide::segment
