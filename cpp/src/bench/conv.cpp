// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/conv.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/conv3d/reference.hpp"

namespace floodtide::bench {
namespace {

using kernels::Activation;
using kernels::Conv3d;
using kernels::Conv3dShape;

/// Arrays of one convolution, in float for the kernel or in double for the reference, with the same numbers.
template <class T>
struct Arrays {
  std::vector<T> weights, bias, weight_grad, bias_grad;
  AlignedBuffer<T> input, output, output_grad, input_grad;
};

template <class T, class Change>
Arrays<T> make_arrays(const Conv3dShape& shape, const ConvOptions& options, Change change) {
  Philox random(1, 0);
  const auto numbers = [&](std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) value = static_cast<T>(change(static_cast<float>(random.uniform() - 0.5)));
    return values;
  };
  const auto activation = [&](std::int64_t channels, std::int64_t real) {
    AlignedBuffer<T> buffer(kernels::activation_size(shape.z, shape.y, shape.x, channels));
    for (std::int64_t voxel = 0; voxel < shape.z * shape.y * shape.x; ++voxel) {
      T* to = buffer.data() + kernels::activation_offset(shape, channels, voxel / (shape.y * shape.x),
                                                         voxel / shape.x % shape.y, voxel % shape.x);
      for (std::int64_t c = 0; c < real; ++c) to[c] = static_cast<T>(change(static_cast<float>(random.uniform() - 0.5)));
    }
    return buffer;
  };
  const std::int64_t weight_count = shape.kernel_z * shape.kernel_y * shape.kernel_x * options.in * options.out;
  Arrays<T> arrays;
  arrays.weights = numbers(weight_count);
  arrays.bias = numbers(options.out);
  arrays.weight_grad.resize(static_cast<std::size_t>(weight_count));
  arrays.bias_grad.resize(static_cast<std::size_t>(options.out));
  arrays.input = activation(shape.in_channels, options.in);
  arrays.output_grad = activation(shape.out_channels, options.out);
  arrays.output = activation(shape.out_channels, 0);
  arrays.input_grad = activation(shape.in_channels, 0);
  return arrays;
}

Arrays<double> reference_result(const Conv3dShape& shape, const ConvOptions& options, bool magnitudes) {
  Arrays<double> a = make_arrays<double>(shape, options, [&](float value) { return magnitudes ? std::abs(value) : value; });
  const Activation on_input = options.relu_input ? Activation::relu : Activation::none;
  const double* mask = options.relu_input ? a.input.data() : nullptr;
  const double* no_residual = nullptr;
  kernels::reference::conv3d_forward(shape, options.in, options.out, a.input.data(), on_input, a.weights.data(), a.bias.data(),
                                     no_residual, false, a.output.data());
  kernels::reference::conv3d_backward_data(shape, options.in, options.out, a.output_grad.data(), a.weights.data(), mask, false,
                                           a.input_grad.data());
  kernels::reference::conv3d_backward_weights(shape, options.in, options.out, a.input.data(), on_input, a.output_grad.data(),
                                              a.weight_grad.data(), a.bias_grad.data());
  return a;
}

void run_forward(const Conv3d& conv, const ConvOptions& options, Arrays<float>& a) {
  conv.forward(a.input.data(), options.relu_input ? Activation::relu : Activation::none, nullptr, false, a.output.data());
}
void run_backward_data(const Conv3d& conv, const ConvOptions& options, Arrays<float>& a) {
  conv.backward_data(a.output_grad.data(), options.relu_input ? a.input.data() : nullptr, false, a.input_grad.data());
}
void run_backward_weights(const Conv3d& conv, const ConvOptions& options, Arrays<float>& a) {
  conv.backward_weights(a.input.data(), options.relu_input ? Activation::relu : Activation::none, a.output_grad.data(),
                        a.weight_grad.data(), a.bias_grad.data());
}

/// Sums of `length` products: within length + 1 roundings of the sum of magnitudes.
template <class Got, class Expected>
void require_close(const std::string& what, const Got& got, const Expected& expected, const Expected& magnitudes,
                   std::int64_t length) {
  const double roundings = static_cast<double>(length + 1) * static_cast<double>(std::numeric_limits<float>::epsilon());
  for (std::size_t i = 0; i < static_cast<std::size_t>(got.size()); ++i) {
    const double difference = std::abs(static_cast<double>(got.data()[i]) - expected.data()[i]);
    FLOODTIDE_REQUIRE(difference <= roundings * magnitudes.data()[i], internal, what, ": element ", i, " is ", got.data()[i],
                      ", the reference gives ", expected.data()[i]);
  }
}

void check_kernel(Conv3dShape shape, const ConvOptions& options, const std::string& kernel) {
  shape.z = std::min<std::int64_t>(shape.z, 3);
  shape.y = std::min<std::int64_t>(shape.y, 3);
  Arrays<float> a = make_arrays<float>(shape, options, [](float value) { return value; });
  Conv3d conv(shape, active_isa(), kernel);
  conv.set_weights(a.weights.data(), options.in, options.out, a.bias.data());
  run_forward(conv, options, a);
  run_backward_data(conv, options, a);
  run_backward_weights(conv, options, a);
  const Arrays<double> expected = reference_result(shape, options, false);
  const Arrays<double> magnitudes = reference_result(shape, options, true);
  const std::int64_t taps = shape.kernel_z * shape.kernel_y * shape.kernel_x;
  const std::int64_t voxels = shape.z * shape.y * shape.x;
  const std::string what = str_cat("bench conv, ", conv.kernel_names());
  require_close(what + ", output", a.output, expected.output, magnitudes.output, taps * options.in + 1);
  require_close(what + ", input gradient", a.input_grad, expected.input_grad, magnitudes.input_grad, taps * options.out);
  require_close(what + ", weight gradient", a.weight_grad, expected.weight_grad, magnitudes.weight_grad, voxels);
  require_close(what + ", bias gradient", a.bias_grad, expected.bias_grad, magnitudes.bias_grad, voxels);
}

}  // namespace

std::vector<Row> conv(const ConvOptions& options) {
  FLOODTIDE_REQUIRE(options.in >= 1 && options.out >= 1, invalid_argument, "bench conv: ", options.in, " to ", options.out,
                    " channels, expected at least 1");
  Conv3dShape shape{options.size[0],
                    options.size[1],
                    options.size[2],
                    kernels::padded_channels(options.in),
                    kernels::padded_channels(options.out),
                    options.kernel[0],
                    options.kernel[1],
                    options.kernel[2]};
  std::vector<std::string> names{""};
  if (!options.against.empty()) names.push_back(options.against);
  std::vector<Conv3d> convs;
  std::vector<Arrays<float>> arrays;
  for (const std::string& kernel : names) {
    check_kernel(shape, options, kernel);
    convs.emplace_back(shape, active_isa(), kernel);
    arrays.push_back(make_arrays<float>(shape, options, [](float value) { return value; }));
    convs.back().set_weights(arrays.back().weights.data(), options.in, options.out, arrays.back().bias.data());
  }

  struct Pass {
    const char* name;
    void (*run)(const Conv3d&, const ConvOptions&, Arrays<float>&);
  };
  std::vector<Row> rows;
  for (const Pass& pass : {Pass{"forward", &run_forward}, Pass{"backward_data", &run_backward_data},
                           Pass{"backward_weights", &run_backward_weights}}) {
    Peak peak(active_isa());
    std::vector<std::function<void()>> bodies;
    for (std::size_t i = 0; i < convs.size(); ++i) bodies.emplace_back([&, i] { pass.run(convs[i], options, arrays[i]); });
    const std::vector<Samples> samples = measure(bodies, peak, options.seconds);
    for (std::size_t i = 0; i < convs.size(); ++i) {
      Row row;
      row.name = str_cat("conv ", pass.name);
      row.kernel = convs[i].kernel();
      row.level = name(active_isa());
      row.shape = str_cat(shape.z, 'x', shape.y, 'x', shape.x, ", kernel ", shape.kernel_z, 'x', shape.kernel_y, 'x',
                          shape.kernel_x, ", ", options.in, " to ", options.out, " channels");
      row.threads = num_threads();
      row.flops = convs[i].flops();
      row.samples = samples[i];
      row.peak_gflops = peak.gflops();
      row.best_peak_gflops = peak.flops() / peak.samples().quantile(0.0) * 1e-9;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace floodtide::bench
