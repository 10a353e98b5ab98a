// SPDX-License-Identifier: Apache-2.0
#include "floodtide/bench/conv.hpp"

#include <algorithm>
#include <cmath>

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

/// Arrays of one convolution: float for the kernel, or double with the same numbers for the reference.
template <class T>
struct Arrays {
  std::vector<T> weights, bias, weight_grad, bias_grad;
  AlignedBuffer<T> input, output, output_grad, input_grad;
  Workspace workspace;
};

template <class T>
Arrays<T> make_arrays(const Conv3dShape& shape, const ConvOptions& options) {
  Philox random(1, 0);
  const auto number = [&] { return static_cast<T>(static_cast<float>(random.uniform() - 0.5)); };
  const auto numbers = [&](std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) value = number();
    return values;
  };
  const auto activation = [&](std::int64_t channels, std::int64_t real) {
    AlignedBuffer<T> buffer(kernels::activation_size(shape.z, shape.y, shape.x, channels));
    for (std::int64_t voxel = 0; voxel < shape.z * shape.y * shape.x; ++voxel) {
      T* to = buffer.data() + kernels::activation_offset(shape, channels, voxel / (shape.y * shape.x),
                                                         voxel / shape.x % shape.y, voxel % shape.x);
      for (std::int64_t c = 0; c < real; ++c) to[c] = number();
    }
    return buffer;
  };
  const std::int64_t weight_count = shape.kernel_z * shape.kernel_y * shape.kernel_x * options.in * options.out;
  Arrays<T> arrays;
  arrays.weights = numbers(weight_count);
  arrays.bias = numbers(options.out);
  arrays.weight_grad.resize(static_cast<std::size_t>(weight_count));
  arrays.bias_grad.resize(static_cast<std::size_t>(options.out));
  arrays.input = activation(shape.stored_in(), options.in);
  arrays.output_grad = activation(shape.stored_out(), options.out);
  arrays.output = activation(shape.stored_out(), 0);
  arrays.input_grad = activation(shape.stored_in(), 0);
  return arrays;
}

Arrays<double> reference_result(const Conv3dShape& shape, const ConvOptions& options) {
  Arrays<double> a = make_arrays<double>(shape, options);
  const Activation on_input = options.relu_input ? Activation::relu : Activation::none;
  const double* mask = options.relu_input ? a.input.data() : nullptr;
  const double* no_residual = nullptr;
  kernels::reference::conv3d_forward(shape, a.input.data(), on_input, a.weights.data(), a.bias.data(), no_residual, false,
                                     a.output.data());
  kernels::reference::conv3d_backward_data(shape, a.output_grad.data(), a.weights.data(), mask, false, a.input_grad.data());
  kernels::reference::conv3d_backward_weights(shape, a.input.data(), on_input, a.output_grad.data(), a.weight_grad.data(),
                                              a.bias_grad.data());
  return a;
}

void run_forward(const Conv3d& conv, const ConvOptions& options, Arrays<float>& a) {
  conv.forward(a.input.data(), options.relu_input ? Activation::relu : Activation::none, nullptr, false, a.output.data(),
               a.workspace);
}
void run_backward_data(const Conv3d& conv, const ConvOptions& options, Arrays<float>& a) {
  conv.backward_data(a.output_grad.data(), options.relu_input ? a.input.data() : nullptr, false, a.input_grad.data(),
                     a.workspace);
}
void run_backward_weights(const Conv3d& conv, const ConvOptions& options, Arrays<float>& a) {
  conv.backward_weights(a.input.data(), options.relu_input ? Activation::relu : Activation::none, a.output_grad.data(),
                        a.weight_grad.data(), a.bias_grad.data(), a.workspace);
}

/// Largest error of a correct kernel, relative to the root mean square of the result. Typical errors are about 1e-6.
constexpr double kMostError = 1e-5;

constexpr double kMostRowProducts = 3e7;  // the reference computes about 5e8 products per second

template <class Got, class Expected>
void require_close(const std::string& what, const Got& got, const Expected& expected) {
  double difference = 0, total = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(got.size()); ++i) {
    difference += std::pow(static_cast<double>(got.data()[i]) - expected.data()[i], 2);
    total += expected.data()[i] * expected.data()[i];
  }
  const double error = std::sqrt(difference / total);
  FLOODTIDE_REQUIRE(error <= kMostError, internal, what, " differs from the reference by ", error, " of its root mean square");
}

/// Compares a kernel with the reference on a smaller volume with rows of the same length. The volume has only one row if the
/// reference would take seconds otherwise. Throws Error(internal) if the kernel is wrong.
void check_kernel(Conv3dShape shape, const ConvOptions& options, const std::string& kernel) {
  const double row_products = static_cast<double>(shape.x * shape.kernel_z * shape.kernel_y * shape.kernel_x) *
                              static_cast<double>(options.in) * static_cast<double>(options.out);
  const std::int64_t rows = row_products > kMostRowProducts ? 1 : 4;
  shape.z = std::min(shape.z, rows);
  shape.y = std::min(shape.y, rows);
  Conv3d conv(shape, active_isa(), kernel);
  Arrays<float> a = make_arrays<float>(shape, options);
  conv.set_weights(a.weights.data(), a.bias.data(), a.workspace);
  run_forward(conv, options, a);
  run_backward_data(conv, options, a);
  run_backward_weights(conv, options, a);
  const Arrays<double> expected = reference_result(shape, options);
  const std::string what = str_cat("bench conv, ", conv.kernel_names());
  require_close(what + ", output", a.output, expected.output);
  require_close(what + ", input gradient", a.input_grad, expected.input_grad);
  require_close(what + ", weight gradient", a.weight_grad, expected.weight_grad);
  require_close(what + ", bias gradient", a.bias_grad, expected.bias_grad);
}

}  // namespace

std::vector<Row> conv(const ConvOptions& options) {
  FLOODTIDE_REQUIRE(options.in >= 1 && options.out >= 1, invalid_argument, "bench conv: ", options.in, " to ", options.out,
                    " channels, expected at least 1");
  const Conv3dShape shape{options.size[0], options.size[1],   options.size[2],   options.in,
                          options.out,     options.kernel[0], options.kernel[1], options.kernel[2]};
  std::vector<std::string> names{""};
  if (!options.against.empty()) names.push_back(options.against);
  std::vector<Conv3d> convs;
  std::vector<Arrays<float>> arrays;
  for (const std::string& kernel : names) {
    convs.emplace_back(shape, active_isa(), kernel, options.compute);
    check_kernel(shape, options, convs.back().kernel());
    arrays.push_back(make_arrays<float>(shape, options));
    convs.back().set_weights(arrays.back().weights.data(), arrays.back().bias.data(), arrays.back().workspace);
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
