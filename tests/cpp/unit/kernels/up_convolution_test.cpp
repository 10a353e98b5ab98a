// SPDX-License-Identifier: Apache-2.0
#include "kernels/up_convolution/up_convolution.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"
#include "support/tolerance.hpp"

namespace floodtide::kernels {
namespace {

struct Case {
  Isa level;
  UpConvolutionShape shape;
};
std::ostream& operator<<(std::ostream& stream, const Case& one) {
  return stream << name(one.level) << ", " << one.shape.z << 'x' << one.shape.y << 'x' << one.shape.x << ", "
                << one.shape.in_channels << " to " << one.shape.out_channels;
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const Isa level : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (level > processor_isa()) continue;
    result.push_back({level, {1, 3, 5, 7, 32, 16, {1, 2, 2}, 32, 16}});
    result.push_back({level, {2, 2, 1, 1, 16, 48, {2, 3, 1}, 48, 0}});
  }
  return result;
}

AlignedBuffer<float> normal(std::int64_t count, std::uint64_t stream) {
  AlignedBuffer<float> values(count);
  Philox random(12, stream);
  for (float& value : values.span()) value = static_cast<float>(random.normal());
  return values;
}

/// Reference in double, from the definition: every output voxel depends on one input voxel and one kernel element.
struct Twin {
  UpConvolutionShape shape;
  std::int64_t in_size, out_size;

  explicit Twin(const UpConvolutionShape& s)
      : shape(s),
        in_size(s.examples * activation_size(s.z, s.y, s.x, s.in_channels)),
        out_size(s.examples * activation_size(s.z * s.pool[0], s.y * s.pool[1], s.x * s.pool[2], s.out_stored)) {}

  /// Calls body(input voxel, first channel of the output voxel, kernel element) with offsets in floats.
  template <class Body>
  void for_each(Body body) const {
    const auto& [pz, py, px] = shape.pool;
    const Conv3dShape in{shape.z, shape.y, shape.x, 1, 1}, out{shape.z * pz, shape.y * py, shape.x * px, 1, 1};
    for (std::int64_t example = 0; example < shape.examples; ++example) {
      for (std::int64_t z = 0; z < out.z; ++z) {
        for (std::int64_t y = 0; y < out.y; ++y) {
          for (std::int64_t x = 0; x < out.x; ++x) {
            body(example * in_size / shape.examples + activation_offset(in, shape.in_channels, z / pz, y / py, x / px),
                 example * out_size / shape.examples + activation_offset(out, shape.out_stored, z, y, x) + shape.out_begin,
                 (z % pz * py + y % py) * px + x % px);
          }
        }
      }
    }
  }
};

class UpConvolutions : public testing::TestWithParam<Case> {};

TEST_P(UpConvolutions, AgreeWithTheLoopsInAllPasses) {
  const Twin twin(GetParam().shape);
  const std::int64_t in = twin.shape.in_channels, out = twin.shape.out_channels;
  const std::int64_t taps = volume<3>(twin.shape.pool),
                     voxels = twin.shape.examples * twin.shape.z * twin.shape.y * twin.shape.x;
  const AlignedBuffer<float> input = normal(twin.in_size, 1), grad = normal(twin.out_size, 2);
  const AlignedBuffer<float> weights = normal(taps * in * out, 3), bias = normal(out, 4);
  UpConvolution layer(GetParam().shape, GetParam().level);
  layer.set_weights(weights.data(), bias.data());
  AlignedBuffer<float> output(twin.out_size), input_grad(twin.in_size), weight_grad(taps * in * out), bias_grad(out);
  layer.forward(input.data(), output.data());
  layer.backward_data(grad.data(), input_grad.data());
  Workspace workspace;
  layer.backward_weights(input.data(), grad.data(), weight_grad.data(), bias_grad.data(), workspace);

  std::vector<double> expected(static_cast<std::size_t>(twin.out_size)), input_twin(static_cast<std::size_t>(twin.in_size)),
      weight_twin(static_cast<std::size_t>(taps * in * out)), bias_twin(static_cast<std::size_t>(out));
  twin.for_each([&](std::int64_t from, std::int64_t to, std::int64_t tap) {
    for (std::int64_t o = 0; o < out; ++o) {
      expected[static_cast<std::size_t>(to + o)] = double{bias[o]};
      bias_twin[static_cast<std::size_t>(o)] += double{grad[to + o]};
      for (std::int64_t i = 0; i < in; ++i) {
        const std::int64_t weight = (tap * in + i) * out + o;
        expected[static_cast<std::size_t>(to + o)] += double{input[from + i]} * double{weights[weight]};
        input_twin[static_cast<std::size_t>(from + i)] += double{grad[to + o]} * double{weights[weight]};
        weight_twin[static_cast<std::size_t>(weight)] += double{input[from + i]} * double{grad[to + o]};
      }
    }
  });
  // The mean absolute value of a product of two normal numbers is below 1.
  const auto near = [](const AlignedBuffer<float>& got, const std::vector<double>& want, std::int64_t length) {
    for (std::int64_t i = 0; i < got.size(); ++i) {
      const double magnitude = 2.0 * static_cast<double>(length) + 4;
      ASSERT_NEAR(got[i], want[static_cast<std::size_t>(i)], test::typical_summation_tolerance<float>(length, magnitude)) << i;
    }
  };
  near(output, expected, in);
  near(input_grad, input_twin, taps * out);
  near(weight_grad, weight_twin, voxels);
  near(bias_grad, bias_twin, taps * voxels);
}

TEST_P(UpConvolutions, GiveTheSameBitsOnAnyNumberOfThreads) {
  const Twin twin(GetParam().shape);
  const std::int64_t in = twin.shape.in_channels, out = twin.shape.out_channels, taps = volume<3>(twin.shape.pool);
  const AlignedBuffer<float> input = normal(twin.in_size, 1), grad = normal(twin.out_size, 2);
  const AlignedBuffer<float> weights = normal(taps * in * out, 3), bias = normal(out, 4);
  std::vector<float> all[2];
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    UpConvolution layer(GetParam().shape, GetParam().level);
    layer.set_weights(weights.data(), bias.data());
    AlignedBuffer<float> output(twin.out_size), input_grad(twin.in_size), weight_grad(taps * in * out), bias_grad(out);
    layer.forward(input.data(), output.data());
    layer.backward_data(grad.data(), input_grad.data());
    Workspace workspace;
    layer.backward_weights(input.data(), grad.data(), weight_grad.data(), bias_grad.data(), workspace);
    std::vector<float>& results = all[threads / 2];
    for (const auto* buffer : {&output, &input_grad, &weight_grad, &bias_grad}) {
      results.insert(results.end(), buffer->span().begin(), buffer->span().end());
    }
  }
  set_num_threads(2);
  EXPECT_EQ(all[0], all[1]);
}

INSTANTIATE_TEST_SUITE_P(Levels, UpConvolutions, testing::ValuesIn(cases()));

}  // namespace
}  // namespace floodtide::kernels
