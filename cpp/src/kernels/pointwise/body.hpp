// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/simd.hpp"
#include "kernels/pointwise/pointwise.hpp"

// Pointwise kernels, written with GCC's vector extensions. Each instruction-set file instantiates them. Sums are made in
// double: a vector of floats is converted to two vectors of doubles.
namespace floodtide::kernels::pointwise {
namespace {

template <int Lanes_>
struct Blocks {
  static constexpr int Lanes = Lanes_;
  using Vector = typename kernels::Lanes<Lanes_>::Vector;
  typedef float Half __attribute__((vector_size(sizeof(float) * Lanes_ / 2), may_alias));
  typedef double Wide __attribute__((vector_size(sizeof(double) * Lanes_ / 2), may_alias));
};

template <class B>
FLOODTIDE_INLINE typename B::Half half(const float* p) {
  return *reinterpret_cast<const typename B::Half*>(p);
}
template <class B>
FLOODTIDE_INLINE typename B::Wide wide(typename B::Half value) {
  return __builtin_convertvector(value, typename B::Wide);
}
template <class B>
FLOODTIDE_INLINE typename B::Wide& wide_slot(double* p) {
  return *reinterpret_cast<typename B::Wide*>(p);
}

template <class B>
void sums(const float* x, Index count, Index channels, double* out) {
  using Wide = typename B::Wide;
  constexpr int half_lanes = B::Lanes / 2;
  for (Index c = 0; c < channels; c += B::Lanes) {
    Wide sum[2][2] = {}, square[2][2] = {};  // two voxels at a time, for shorter chains of dependent additions
    const float* from = x + c;
    Index i = 0;
    for (; i + 2 <= count; i += 2, from += 2 * channels) {
#pragma GCC unroll 2
      for (int voxel = 0; voxel < 2; ++voxel) {
#pragma GCC unroll 2
        for (int part = 0; part < 2; ++part) {
          const Wide value = wide<B>(half<B>(from + voxel * channels + part * half_lanes));
          sum[voxel][part] += value;
          square[voxel][part] += value * value;
        }
      }
    }
    for (; i < count; ++i, from += channels) {
#pragma GCC unroll 2
      for (int part = 0; part < 2; ++part) {
        const Wide value = wide<B>(half<B>(from + part * half_lanes));
        sum[0][part] += value;
        square[0][part] += value * value;
      }
    }
#pragma GCC unroll 2
    for (int part = 0; part < 2; ++part) {
      wide_slot<B>(out + c + part * half_lanes) += sum[0][part] + sum[1][part];
      wide_slot<B>(out + channels + c + part * half_lanes) += square[0][part] + square[1][part];
    }
  }
}

template <class B>
void normalise(const float* x, Affine affine, Index count, Index channels, float* out, Index out_step) {
  for (Index i = 0; i < count; ++i, x += channels, out += out_step) {
    for (Index c = 0; c < channels; c += B::Lanes) {
      slot<B>(out + c) = rectified<B>(load<B>(x + c) * load<B>(affine.scale + c) + load<B>(affine.shift + c));
    }
  }
}

template <class B>
void gradient_sums(const float* x, Affine affine, const float* grad, Index grad_step, Index count, Index channels,
                   double* out) {
  using Half = typename B::Half;
  using Wide = typename B::Wide;
  constexpr int half_lanes = B::Lanes / 2;
  for (Index c = 0; c < channels; c += half_lanes) {
    const Half scale = half<B>(affine.scale + c), shift = half<B>(affine.shift + c);
    constexpr int voxels = 4;  // at a time, for shorter chains of dependent additions
    Wide sum[voxels] = {}, product[voxels] = {};
    const float* from = x + c;
    const float* g = grad + c;
    const auto add = [&](int voxel) FLOODTIDE_LAMBDA {
      const Half value = half<B>(from + voxel * channels);
      const Wide gradient = wide<B>(value * scale + shift > 0.0F ? half<B>(g + voxel * grad_step) : Half{});
      sum[voxel] += gradient;
      product[voxel] += gradient * wide<B>(value);
    };
    Index i = 0;
    for (; i + voxels <= count; i += voxels, from += voxels * channels, g += voxels * grad_step) {
#pragma GCC unroll 4
      for (int voxel = 0; voxel < voxels; ++voxel) add(voxel);
    }
    for (; i < count; ++i, from += channels, g += grad_step) add(0);
    wide_slot<B>(out + c) += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    wide_slot<B>(out + channels + c) += (product[0] + product[1]) + (product[2] + product[3]);
  }
}

template <class B>
void gradient(const float* x, Affine affine, AffineGradient factors, const float* grad, Index grad_step, Index count,
              Index channels, float* out) {
  using Vector = typename B::Vector;
  for (Index i = 0; i < count; ++i, x += channels, grad += grad_step, out += channels) {
    for (Index c = 0; c < channels; c += B::Lanes) {
      const Vector value = load<B>(x + c);
      const Vector passed = value * load<B>(affine.scale + c) + load<B>(affine.shift + c) > 0.0F ? load<B>(grad + c) : Vector{};
      const Vector centred = value - load<B>(factors.mean + c);
      slot<B>(out + c) =
          passed * load<B>(factors.slope + c) + (centred * load<B>(factors.curve + c) + load<B>(factors.offset + c));
    }
  }
}

/// Return the larger value, or NaN if one of them is NaN.
template <class Vector>
FLOODTIDE_INLINE Vector larger_of(Vector a, Vector b) {
  return (b <= a) | (a != a) ? a : b;
}

template <class B>
void max_pool(const float* const* rows, Affine affine, Index row_count, Index pool, Index count, Index channels, float* out) {
  using Vector = typename B::Vector;
  for (Index i = 0; i < count; ++i, out += channels) {
    for (Index c = 0; c < channels; c += B::Lanes) {
      const Vector scale = load<B>(affine.scale + c), shift = load<B>(affine.shift + c);
      const Index first = i * pool * channels + c;
      Vector best = load<B>(rows[0] + first) * scale + shift;
      for (Index row = 0; row < row_count; ++row) {
        for (Index x = row == 0; x < pool; ++x) {
          best = larger_of(best, Vector(load<B>(rows[row] + first + x * channels) * scale + shift));
        }
      }
      slot<B>(out + c) = rectified<B>(best);
    }
  }
}

template <class B>
void max_pool_gradient(const float* const* rows, Affine affine, Index row_count, Index pool, Index count, Index channels,
                       const float* grad, float* const* row_grads) {
  using Vector = typename B::Vector;
  Vector values[16 * 4];
  for (Index i = 0; i < count; ++i, grad += channels) {
    for (Index c = 0; c < channels; c += B::Lanes) {
      const Vector scale = load<B>(affine.scale + c), shift = load<B>(affine.shift + c);
      const Index first = i * pool * channels + c;
      for (Index row = 0; row < row_count; ++row) {
        for (Index x = 0; x < pool; ++x) values[row * pool + x] = load<B>(rows[row] + first + x * channels) * scale + shift;
      }
      Vector best = values[0];
      for (Index value = 1; value < row_count * pool; ++value) best = larger_of(best, values[value]);
      Vector left = load<B>(grad + c);  // becomes zero when a voxel has received the gradient
      for (Index row = 0; row < row_count; ++row) {
        for (Index x = 0; x < pool; ++x) {
          const auto here = values[row * pool + x] == best;
          slot<B>(row_grads[row] + first + x * channels) += here ? left : Vector{};
          left = here ? Vector{} : left;
        }
      }
    }
  }
}

template <class B>
FLOODTIDE_INLINE float total(typename B::Vector value) {
  float sum = 0;
#pragma GCC unroll 16
  for (int lane = 0; lane < B::Lanes; ++lane) sum += value[lane];
  return sum;
}

template <class B>
void head(const float* x, Index count, Index channels, Index classes, const float* weights, const float* biases,
          float* logits) {
  using Vector = typename B::Vector;
  for (Index i = 0; i < count; ++i, x += channels, logits += classes) {
    for (Index k = 0; k < classes; ++k) {
      Vector sum = {};
      for (Index c = 0; c < channels; c += B::Lanes) sum += load<B>(x + c) * load<B>(weights + k * channels + c);
      logits[k] = total<B>(sum) + biases[k];
    }
  }
}

template <class B>
void head_gradient(const float* x, Index count, Index channels, Index classes, const float* weights, const float* logit_grad,
                   float* out_grad, double* weight_sums) {
  using Vector = typename B::Vector;
  using Wide = typename B::Wide;
  constexpr int half_lanes = B::Lanes / 2;
  for (Index c = 0; c < channels; c += B::Lanes) {
    for (Index i = 0; i < count; ++i) {
      Vector sum = {};
      for (Index k = 0; k < classes; ++k) sum += load<B>(weights + k * channels + c) * logit_grad[i * classes + k];
      slot<B>(out_grad + i * channels + c) = sum;
    }
  }
  for (Index k = 0; k < classes; ++k) {
    for (Index c = 0; c < channels; c += half_lanes) {
      Wide sum = {};
      for (Index i = 0; i < count; ++i) sum += wide<B>(half<B>(x + i * channels + c) * logit_grad[i * classes + k]);
      wide_slot<B>(weight_sums + k * channels + c) += sum;
    }
  }
}

template <class B>
inline constexpr Kernels kernels_of{&sums<B>,     &normalise<B>,         &gradient_sums<B>, &gradient<B>,
                                    &max_pool<B>, &max_pool_gradient<B>, &head<B>,          &head_gradient<B>};

}  // namespace
}  // namespace floodtide::kernels::pointwise
