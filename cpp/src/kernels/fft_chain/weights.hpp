// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/simd.hpp"
#include "kernels/fft_chain/tasks.hpp"

// Transforms of weights along y and x, in double precision.
namespace floodtide::kernels::fft {
namespace {

constexpr double kExactHalfSqrt3 = 0.866025403784438646763723170752936183;
constexpr double kExactCos[12] = {1,  kExactHalfSqrt3,  0.5,  0, -0.5, -kExactHalfSqrt3,
                                  -1, -kExactHalfSqrt3, -0.5, 0, 0.5,  kExactHalfSqrt3};
constexpr double exact_sin(Index k) { return kExactCos[(k + 9) % 12]; }

struct Number {
  double re, im;
};

/// Return the factor of a tap at a point along one axis: that of the conjugate of the weights' transform, because a convolution
/// of networks is a correlation.
constexpr Number tap_factor(Index point, Index tap) {
  if (point == kInfinity) return {tap == 2 ? 1.0 : 0.0, 0.0};
  return {kExactCos[point * tap % 12], exact_sin(point * tap % 12)};
}

/// Frequencies of a group, and the factor of its products: 1/12 for each axis with an inverse transform, and 2 if the group
/// also stands for its conjugate.
struct GroupPoint {
  Index y, x;
  double factor;
};
constexpr GroupPoint group_point(Index group) {
  GroupPoint result{};
  bool conjugate = true;
  if (group < kRealGroups) {
    result.y = kRealFrequencies[group / kRealLines];
    result.x = kRealFrequencies[group % kRealLines];
    conjugate = false;
  } else if (group < kRealGroups + kRealLines * kComplexLines) {
    const Index index = group - kRealGroups;
    result.y = kComplexFrequencies[index % kComplexLines];
    result.x = kRealFrequencies[index / kComplexLines];
  } else {
    const Index index = group - kRealGroups - kRealLines * kComplexLines;
    result.y = index % kPoints;
    result.x = kComplexFrequencies[index / kPoints];
  }
  result.factor = 1.0 / 12;  // along z; the point at infinity is multiplied by 12 when it is used
  if (result.y != kInfinity) result.factor /= 12;
  if (result.x != kInfinity) result.factor /= 12;
  if (conjugate) result.factor *= 2;
  return result;
}

/// Transforms the weights of one group.
template <class B>
FLOODTIDE_BLOCK void transform_group_weights(const Layout& layout, const float* weights, Index group, float* out_transformed) {
  using Wide = Doubles<B::Lanes>;
  const Index channels = layout.channels, squared = channels * channels;
  const GroupPoint point = group_point(group);
  Number factors[9];
  for (Index tap = 0; tap < 9; ++tap) {
    const Number a = tap_factor(point.y, tap / 3), b = tap_factor(point.x, tap % 3);
    factors[tap] = {point.factor * (a.re * b.re - a.im * b.im), point.factor * (a.re * b.im + a.im * b.re)};
  }
  for (Index z = 0; z < 3; ++z) {
    float* const to = out_transformed + 2 * z * squared;
    for (Index in = 0; in < channels; ++in) {
      for (Index out = 0; out < channels; out += B::Lanes) {
        Wide re{}, im{};
        for (Index tap = 0; tap < 9; ++tap) {
          const Wide weight = Wide::load(weights + ((z * 9 + tap) * channels + in) * channels + out);
          re += factors[tap].re * weight;
          im += factors[tap].im * weight;
        }
        const Index block = out / B::Outputs * B::Outputs, width = smaller(B::Outputs, channels - block);
        const Index at = block * channels + in * width + out - block;
        re.store(to + at);
        im.store(to + squared + at);
      }
    }
  }
}

template <class B>
void transform_weights(const Layout& layout, const float* weights, Index group_begin, Index group_end, float* out_transformed) {
  for (Index group = group_begin; group < group_end; ++group) {
    transform_group_weights<B>(layout, weights, group, out_transformed + group * layout.group_weight_floats());
  }
}

}  // namespace
}  // namespace floodtide::kernels::fft
