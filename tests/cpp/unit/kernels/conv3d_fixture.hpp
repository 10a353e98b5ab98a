// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/base/random.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/conv3d/reference.hpp"

namespace floodtide::kernels::test {

/// Arrays of one convolution. widened() converts them to double for the reference.
struct Conv3dCase {
  Conv3dShape shape;
  AlignedBuffer<float> input, residual, output_grad, input_grad;
  std::vector<float> weights, bias;

  [[nodiscard]] std::int64_t input_size() const { return activation_size(shape.z, shape.y, shape.x, shape.stored_in()); }
  [[nodiscard]] std::int64_t output_size() const { return activation_size(shape.z, shape.y, shape.x, shape.stored_out()); }
};

/// Return an activation with normal numbers in the interior, and zeros in the halo and in padding channels.
inline AlignedBuffer<float> random_activation(const Conv3dShape& shape, std::int64_t channels, std::int64_t real,
                                              std::uint64_t stream) {
  AlignedBuffer<float> buffer(activation_size(shape.z, shape.y, shape.x, channels));
  Philox random(7, stream);
  for (std::int64_t z = 0; z < shape.z; ++z) {
    for (std::int64_t y = 0; y < shape.y; ++y) {
      for (std::int64_t x = 0; x < shape.x; ++x) {
        for (std::int64_t c = 0; c < real; ++c) {
          buffer[activation_offset(shape, channels, z, y, x) + c] = static_cast<float>(random.normal());
        }
      }
    }
  }
  return buffer;
}

inline Conv3dCase make_case(const Conv3dShape& shape) {
  const std::int64_t in = shape.in_channels, out = shape.out_channels;
  Conv3dCase c{shape,
               random_activation(shape, shape.stored_in(), in, 1),
               random_activation(shape, shape.stored_out(), out, 2),
               random_activation(shape, shape.stored_out(), out, 3),
               random_activation(shape, shape.stored_in(), in, 4),
               {},
               {}};
  Philox random(7, 5);
  c.weights.resize(static_cast<std::size_t>(shape.weight_count()));
  c.bias.resize(static_cast<std::size_t>(out));
  for (float& weight : c.weights) weight = static_cast<float>(random.normal());
  for (float& bias : c.bias) bias = static_cast<float>(random.normal());
  return c;
}

template <class Container>
std::vector<double> widened(const Container& values, bool magnitude = false) {
  std::vector<double> result;
  for (const float value : values) result.push_back(magnitude ? std::abs(static_cast<double>(value)) : value);
  return result;
}
inline std::vector<double> widened(const AlignedBuffer<float>& values, bool magnitude = false) {
  return widened(values.span(), magnitude);
}

inline AlignedBuffer<float> copy_of(const AlignedBuffer<float>& source) {
  AlignedBuffer<float> copy(source.size());
  for (std::int64_t i = 0; i < source.size(); ++i) copy[i] = source[i];
  return copy;
}

}  // namespace floodtide::kernels::test
