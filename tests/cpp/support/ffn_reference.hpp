// SPDX-License-Identifier: Apache-2.0
// Reference implementation of the flood-filling network in double, for comparison with Ffn. It uses the reference convolutions.
// ReLUs use the signs of their inputs, or the masks of another run.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "floodtide/nn/ffn.hpp"
#include "kernels/conv3d/reference.hpp"

namespace floodtide::test {

struct FfnReference {
  nn::FfnOptions options;
  const ParameterLayout* layout;
  std::vector<double> parameters;
  /// Masks [2 * depth, z, y, x, features] from Ffn::relu_masks, or empty.
  std::vector<std::uint8_t> masks{};

  struct Result {
    double loss;
    std::vector<double> logits;
    std::vector<double> gradients;
  };

  /// Runs a training pass. Arrays are [z, y, x]. The loss is the mean over voxels of weight times cross-entropy.
  Result run(const Vec3& size, const std::vector<float>& image, const std::vector<float>& logits,
             const std::vector<float>& labels, const std::vector<float>& weights) const {
    const int convolutions = 2 * options.depth;
    std::vector<std::vector<double>> outputs, rectified;
    std::vector<double> input(static_cast<std::size_t>(kernels::activation_size(size[0], size[1], size[2], 16)));
    for_voxels(size, 16, [&](std::int64_t voxel, std::int64_t offset) {
      input[offset] = image[voxel];
      input[offset + 1] = logits[voxel];
    });
    for (int i = 0; i < convolutions; ++i) {
      const kernels::Conv3dShape shape = shape_of(size, i);
      std::vector<double> out(
          static_cast<std::size_t>(kernels::activation_size(size[0], size[1], size[2], shape.stored_out())));
      const double* residual = i % 2 == 1 && i > 1 ? outputs[static_cast<std::size_t>(i - 2)].data() : nullptr;
      kernels::reference::conv3d_forward<double>(shape, i == 0 ? input.data() : rectified.back().data(),
                                                 kernels::Activation::none, weights_of(2 * i), weights_of(2 * i + 1), residual,
                                                 false, out.data());
      std::vector<double> relu = out;
      for_features(size, i,
                   [&](std::int64_t offset, std::int64_t mask) { relu[offset] = open(out[offset], mask) ? out[offset] : 0; });
      outputs.push_back(std::move(out));
      rectified.push_back(std::move(relu));
    }
    return backward(size, input, outputs, rectified, logits, labels, weights);
  }

 private:
  std::int64_t in_of(int convolution) const { return convolution == 0 ? 2 : options.features; }
  const double* weights_of(int entry) const {
    return parameters.data() + layout->entry(static_cast<std::size_t>(entry)).offset;
  }
  kernels::Conv3dShape shape_of(const Vec3& size, int convolution) const {
    return {size[0], size[1], size[2], in_of(convolution), options.features};
  }
  bool open(double value, std::int64_t mask) const {
    return masks.empty() ? value > 0 : masks[static_cast<std::size_t>(mask)] != 0;
  }

  template <class Body>
  static void for_voxels(const Vec3& size, std::int64_t channels, const Body& body) {
    const kernels::Conv3dShape shape{size[0], size[1], size[2], channels, channels};
    for (std::int64_t z = 0, voxel = 0; z < size[0]; ++z) {
      for (std::int64_t y = 0; y < size[1]; ++y) {
        for (std::int64_t x = 0; x < size[2]; ++x, ++voxel) body(voxel, kernels::activation_offset(shape, channels, z, y, x));
      }
    }
  }
  /// Calls body(offset in the activation, index into masks) for all features of the output of one convolution.
  template <class Body>
  void for_features(const Vec3& size, int convolution, const Body& body) const {
    const std::int64_t first = convolution * volume<3>(size) * options.features;
    for_voxels(size, kernels::stored_channels(options.features), [&](std::int64_t voxel, std::int64_t offset) {
      for (std::int64_t c = 0; c < options.features; ++c) body(offset + c, first + voxel * options.features + c);
    });
  }

  Result backward(const Vec3& size, const std::vector<double>& input, const std::vector<std::vector<double>>& outputs,
                  const std::vector<std::vector<double>>& rectified, const std::vector<float>& logits,
                  const std::vector<float>& labels, const std::vector<float>& weights) const {
    const int convolutions = 2 * options.depth;
    const auto voxels = static_cast<double>(volume<3>(size));
    const double* head = weights_of(2 * convolutions);
    Result result{0, std::vector<double>(logits.begin(), logits.end()), std::vector<double>(parameters.size())};
    const auto grad_of = [&](int entry) {
      return result.gradients.data() + layout->entry(static_cast<std::size_t>(entry)).offset;
    };
    std::vector<double> stream_grad(outputs.back().size());
    for_voxels(size, kernels::stored_channels(options.features), [&](std::int64_t voxel, std::int64_t offset) {
      double& logit = result.logits[voxel];
      logit += *weights_of(2 * convolutions + 1);
      for (std::int64_t c = 0; c < options.features; ++c) logit += rectified.back()[offset + c] * head[c];
      const double probability = 1 / (1 + std::exp(-logit));
      const double label = labels[voxel], weight = weights.empty() ? 1.0 : double{weights[voxel]};
      result.loss -= weight * (label * std::log(probability) + (1 - label) * std::log1p(-probability)) / voxels;
      const double grad = weight * (probability - label) / voxels;
      *grad_of(2 * convolutions + 1) += grad;
      for (std::int64_t c = 0; c < options.features; ++c) {
        grad_of(2 * convolutions)[c] += grad * rectified.back()[offset + c];
        stream_grad[offset + c] = grad * head[c];
      }
    });
    const auto close = [&](std::vector<double>& grad, int convolution) {
      const std::vector<double>& out = outputs[static_cast<std::size_t>(convolution)];
      for_features(size, convolution, [&](std::int64_t offset, std::int64_t mask) {
        if (!open(out[offset], mask)) grad[offset] = 0;
      });
    };
    close(stream_grad, convolutions - 1);
    for (int i = convolutions - 1; i > 0; i -= 2) {
      std::vector<double> inner_grad(stream_grad.size()), before_grad(stream_grad.size());
      kernels::reference::conv3d_backward_weights<double>(shape_of(size, i), rectified[static_cast<std::size_t>(i - 1)].data(),
                                                          kernels::Activation::none, stream_grad.data(), grad_of(2 * i),
                                                          grad_of(2 * i + 1));
      kernels::reference::conv3d_backward_data<double>(shape_of(size, i), stream_grad.data(), weights_of(2 * i), nullptr, false,
                                                       inner_grad.data());
      close(inner_grad, i - 1);
      kernels::reference::conv3d_backward_weights<double>(
          shape_of(size, i - 1), i == 1 ? input.data() : rectified[static_cast<std::size_t>(i - 2)].data(),
          kernels::Activation::none, inner_grad.data(), grad_of(2 * i - 2), grad_of(2 * i - 1));
      if (i == 1) break;
      kernels::reference::conv3d_backward_data<double>(shape_of(size, i - 1), inner_grad.data(), weights_of(2 * i - 2), nullptr,
                                                       false, before_grad.data());
      close(before_grad, i - 2);
      for (std::size_t k = 0; k < stream_grad.size(); ++k) stream_grad[k] += before_grad[k];
    }
    return result;
  }
};

}  // namespace floodtide::test
