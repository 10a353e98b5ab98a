# SPDX-License-Identifier: Apache-2.0
"""Exchange the weights of a flood-filling network with PyTorch, in both directions."""

import numpy as np
import torch

import floodtide as ft


def to_torch(state):
    """Return tensors with PyTorch's names and axes."""
    tensors = {}
    for name, array in state.items():
        turned = array.transpose(4, 3, 0, 1, 2).copy() if array.ndim == 5 else array
        name = name.replace("/", ".").replace("weights", "weight").replace("biases", "bias")
        tensors[name] = torch.from_numpy(turned)
    return tensors


def forward(tensors, image, logits, depth):
    """Compute what FFN.forward computes, for tensors of shape (z, y, x)."""

    def convolve(value, name):
        weights = tensors[f"seed_update.{name}.weight"]
        biases = tensors[f"seed_update.{name}.bias"]
        return torch.nn.functional.conv3d(value, weights, biases, padding=weights.shape[-1] // 2)

    stream = convolve(convolve(torch.stack([image, logits])[None], "conv0_a").relu(), "conv0_b")
    for i in range(1, depth):
        stream = stream + convolve(convolve(stream.relu(), f"conv{i}_a").relu(), f"conv{i}_b")
    return logits + convolve(stream.relu(), "conv_lom")[0, 0]


model = ft.nn.FFN(depth=3, features=8, fov=(17, 17, 17), deltas=(6, 6, 6))
tensors = to_torch(model.state_dict())
image, logits = np.random.default_rng(1).normal(size=(2, 17, 17, 17)).astype(np.float32)
theirs = forward(tensors, torch.from_numpy(image), torch.from_numpy(logits), depth=3)
assert np.allclose(theirs.numpy(), model.forward(image, logits), atol=1e-4)

model.load_state_dict(tensors)  # that PyTorch has trained, for example
model.save("from_torch.h5")  # ft.nn.load and floodtide segment read the file
