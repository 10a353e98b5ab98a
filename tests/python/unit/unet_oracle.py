# SPDX-License-Identifier: Apache-2.0
"""U-Nets and segmentation losses in PyTorch, in float64: what ours are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
Tensors = dict[str, torch.Tensor]


def tensors_of(state: dict[str, Array]) -> Tensors:
    """Leaves that take gradients, in our layout."""
    return {n: torch.from_numpy(a.astype(np.float64)).requires_grad_() for n, a in state.items()}


def logits(core: Any, tensors: Tensors, images: Array, groups: int, train: bool) -> Any:
    """Logits (n, z, y, x, classes) of images (n, z, y, x, channels)."""
    depth, kernels, pools = core.depth, core.kernels, core.pools
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
        if core.batch_norm:
            norm = {
                n: tensors[f"{scope}/norm_{half}/{n}"]
                for n in ("scale", "shift", "mean", "variance")
            }
            moving = norm["mean"].detach().clone(), norm["variance"].detach().clone()
            parts = [
                torch.nn.functional.batch_norm(part, *moving, norm["scale"], norm["shift"], train)
                for part in x.chunk(groups)
            ]
            x = torch.cat(parts)
        x = torch.relu(x)
    return x


def loss(options: Any, output: str, logits: Any, truth: Array, weights: Array | None) -> Any:
    """The sum over images of their losses, as floodtide.nn.SegmentationLoss defines them."""
    classes = logits.shape[-1]
    target = torch.from_numpy(truth)
    if output == "softmax":
        counted = (target != 255).double()[..., None]
        one_hot = torch.nn.functional.one_hot(
            torch.where(target == 255, 0, target).long(), classes
        ).double()
        p = torch.softmax(logits, -1)
        entropy = -(one_hot * torch.log_softmax(logits, -1) * counted).sum(-1).mean((1, 2, 3))
        first = 0 if options.background else 1
    else:
        one_hot = target.double()
        counted = (
            torch.ones_like(one_hot) if weights is None else torch.from_numpy(weights).double()
        )
        p = torch.sigmoid(logits)
        entropy = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, one_hot, counted, reduction="none"
        ).mean((1, 2, 3, 4))
        first = 0
    dims = (0, 1, 2, 3) if options.over_batch else (1, 2, 3)
    overlap, predicted, true = (
        (counted * a).sum(dims)[..., first:] for a in (p * one_hot, p, one_hot)
    )
    dice = ((2 * overlap + options.smooth) / (predicted + true + options.smooth)).mean(-1)
    return (options.dice * (1 - dice) + options.cross_entropy * entropy).sum()
