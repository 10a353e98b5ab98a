# SPDX-License-Identifier: Apache-2.0
"""Networks, losses and optimizers in PyTorch, in float64: what those of floodtide are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from golden.case import Array

Tensors = dict[str, torch.Tensor]


def version() -> str:
    """Return the version of PyTorch, without the name of the build."""
    return str(torch.__version__).split("+")[0]


def use_one_thread() -> None:
    """Make sums independent of the number of processors."""
    torch.set_num_threads(1)


def tensors_of(state: Mapping[str, Array]) -> Tensors:
    """Return leaves that take gradients, in the layout of floodtide."""
    return {n: torch.from_numpy(a.astype(np.float64)).requires_grad_() for n, a in state.items()}


def values(tensors: Tensors) -> dict[str, Array]:
    """Return the values of tensors as arrays that share their memory."""
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def gradients(tensors: Tensors) -> dict[str, Array]:
    """Return the gradients of those tensors that have one."""
    return {name: t.grad.numpy() for name, t in tensors.items() if t.grad is not None}


def set_gradients(tensors: Tensors, gradients: Mapping[str, Array]) -> None:
    """Set the gradient of each tensor."""
    for name, tensor in tensors.items():
        tensor.grad = torch.from_numpy(gradients[name].astype(np.float64))


def optimizer(name: str, tensors: Tensors, **options: Any) -> torch.optim.Optimizer:
    """Return an optimizer of PyTorch. It passes over tensors without a gradient."""
    made: torch.optim.Optimizer = getattr(torch.optim, name)(list(tensors.values()), **options)
    return made


def train(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> float:
    """Update the parameters with the gradients of a loss, and return the loss."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return float(loss.detach())


def ffn_logits(tensors: Tensors, image: Array, logits: Array) -> torch.Tensor:
    """Return the mask logits (z, y, x) after one step of a flood-filling network of depth 3."""

    def convolve(value: torch.Tensor, name: str) -> torch.Tensor:
        weights = tensors[f"seed_update/{name}/weights"].permute(4, 3, 0, 1, 2)
        padding = weights.shape[-1] // 2
        return torch.nn.functional.conv3d(
            value, weights, tensors[f"seed_update/{name}/biases"], padding=padding
        )

    value = torch.from_numpy(np.stack([image, logits]).astype(np.float64))[None]
    stream = convolve(convolve(value, "conv0_a").relu(), "conv0_b")
    for i in (1, 2):
        inner = convolve(stream.relu(), f"conv{i}_a").relu()
        stream = stream + convolve(inner, f"conv{i}_b")
    return value[0, 1] + convolve(stream.relu(), "conv_lom")[0, 0]


def ffn_loss(logits: torch.Tensor, labels: Array) -> torch.Tensor:
    """Return the mean cross-entropy of mask logits with softened labels."""
    return torch.nn.functional.binary_cross_entropy_with_logits(
        logits, torch.from_numpy(labels.astype(np.float64))
    )


def unet_logits(core: Any, tensors: Tensors, images: Array, groups: int, train: bool) -> Any:
    """Return logits (n, z, y, x, classes) of images (n, z, y, x, channels).

    In training mode, each group of images has its own statistics in batch normalisation, and the moving statistics in
    `tensors` move towards the mean of the groups.
    """
    options = core.options
    depth, kernels, pools = options.depth, options.kernels, options.pools
    kernels = kernels * depth if len(kernels) == 1 else kernels
    pools = pools * (depth - 1) if len(pools) == 1 else pools
    x = torch.from_numpy(images.astype(np.float64)).movedim(-1, 1)
    skips = []
    for level in range(depth):
        x = _pair(core, tensors, f"encoder{level}", kernels[level], x, groups, train)
        if level + 1 < depth:
            skips.append(x)
            x = torch.nn.functional.max_pool3d(x, pools[level])
    for level in reversed(range(depth - 1)):
        weights = tensors[f"decoder{level}/up/weights"].movedim((3, 4), (0, 1))
        bias = tensors[f"decoder{level}/up/biases"]
        x = torch.nn.functional.conv_transpose3d(x, weights, bias, stride=pools[level])
        x = torch.cat([skips[level], x], 1)
        x = _pair(core, tensors, f"decoder{level}", kernels[level], x, groups, train)
    weights = tensors["head/weights"].movedim((3, 4), (1, 0))
    return torch.nn.functional.conv3d(x, weights, tensors["head/biases"]).movedim(1, -1)


def _pair(
    core: Any, tensors: Tensors, scope: str, kernel: Any, x: Any, groups: int, train: bool
) -> Any:
    padding = [extent // 2 for extent in kernel]
    for half in "ab":
        weights = tensors[f"{scope}/conv_{half}/weights"].movedim((3, 4), (1, 0))
        bias = tensors.get(f"{scope}/conv_{half}/biases")
        x = torch.nn.functional.conv3d(x, weights, bias, padding=padding)
        if core.options.batch_norm:
            norm = {
                n: tensors[f"{scope}/norm_{half}/{n}"]
                for n in ("scale", "shift", "mean", "variance")
            }
            moving = [norm[n].detach() for n in ("mean", "variance")]
            moved = [[array.clone() for array in moving] for _ in range(groups)]
            parts = [
                torch.nn.functional.batch_norm(
                    part, mean, variance, norm["scale"], norm["shift"], train
                )
                for part, (mean, variance) in zip(x.chunk(groups), moved, strict=True)
            ]
            x = torch.cat(parts)
            for array, of_groups in zip(moving, zip(*moved, strict=True), strict=True):
                array.copy_(torch.stack(of_groups).mean(0))
        x = torch.relu(x)
    return x


def unet_loss(options: Any, output: str, logits: Any, truth: Array, weights: Array | None) -> Any:
    """Return the sum over images of their losses, as floodtide.nn.SegmentationLoss defines them."""
    classes = logits.shape[-1]
    target = torch.from_numpy(truth)
    if output == "softmax":
        counted = (target != 255).double()[..., None]
        one_hot = torch.nn.functional.one_hot(
            torch.where(target == 255, 0, target).long(), classes
        ).double()
        p = torch.softmax(logits, -1)
        entropy = -(one_hot * torch.log_softmax(logits, -1) * counted).sum(-1)
        missed = 1 - (p * one_hot).sum(-1)
        first = 0 if options.background else 1
    else:
        one_hot = target.double()
        counted = (
            torch.ones_like(one_hot) if weights is None else torch.from_numpy(weights).double()
        )
        p = torch.sigmoid(logits)
        entropy = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, one_hot, counted, reduction="none"
        )
        missed = 1 - (p * one_hot + (1 - p) * (1 - one_hot))
        first = 0
    if options.focus:
        entropy = entropy * missed**options.focus
    entropy = entropy.flatten(1).mean(1)
    dims = (0, 1, 2, 3) if options.over_batch else (1, 2, 3)
    overlap, predicted, true = (
        (counted * a).sum(dims)[..., first:] for a in (p * one_hot, p, one_hot)
    )
    dice = ((2 * overlap + options.smooth) / (predicted + true + options.smooth)).mean(-1)
    return (options.dice * (1 - dice) + options.cross_entropy * entropy).sum()


def probabilities(output: str, logits: torch.Tensor) -> torch.Tensor:
    """Return the probabilities of logits whose last axis are the classes."""
    return torch.softmax(logits, -1) if output == "softmax" else torch.sigmoid(logits)
