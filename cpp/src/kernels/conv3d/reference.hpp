// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/conv3d.hpp"

/// Reference implementation of the passes of a convolution: plain loops in float or double, on one thread. Arrays are as in
/// Conv3d. Weights are not packed: [kernel_z, kernel_y, kernel_x, in, out].
namespace floodtide::kernels::reference {

template <class T>
void conv3d_forward(const Conv3dShape& shape, const T* input, Activation on_input, const T* weights, const T* bias,
                    const T* residual, bool relu_output, T* result);

template <class T>
void conv3d_backward_data(const Conv3dShape& shape, const T* output_grad, const T* weights, const T* relu_mask, bool accumulate,
                          T* out_input_grad);

template <class T>
void conv3d_backward_weights(const Conv3dShape& shape, const T* input, Activation on_input, const T* output_grad,
                             T* out_weight_grad, T* out_bias_grad);

}  // namespace floodtide::kernels::reference
