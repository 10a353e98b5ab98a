# SPDX-License-Identifier: Apache-2.0
"""The flood-filling network in float64 NumPy, forward and backward, written from its definition.

A convolution is a sum over its 27 taps of matrix products. With a zero-padded array as rows, one
row a voxel, each tap is a shift of all rows; rows that fall on the padding are dropped afterwards.
Products are made in blocks of rows so small that no BLAS library starts threads for them.
ReLUs follow the signs of their inputs or given masks: a rounding error may flip a ReLU, which
changes gradients by more than rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BLOCK = 128


def _taps(array: Array) -> Iterator[tuple[tuple[int, int, int], Array]]:
    """Yield (kz, ky, kx) and (blocks, BLOCK, channels): the rows that this tap meets, from voxel (0, 0, 0).

    Rows behind the last voxel's are zero or of no interest.
    """
    z, y, x, channels = array.shape
    count = -(-z * (y + 2) * (x + 2) // BLOCK) * BLOCK
    rows = np.zeros((count + 2 * (y + 3) * (x + 3), channels))
    padded = np.pad(array, [(1, 1)] * 3 + [(0, 0)]).reshape(-1, channels)
    rows[: len(padded)] = padded[: len(rows)]
    for tap in itertools.product(range(3), repeat=3):
        start = (tap[0] * (y + 2) + tap[1]) * (x + 2) + tap[2]
        yield tap, rows[start : start + count].reshape(-1, BLOCK, channels)


def _convolve(array: Array, weights: Array) -> Array:
    """(z, y, x, in) with (3, 3, 3, in, out) to (z, y, x, out), zero padding."""
    z, y, x, _ = array.shape
    out = part = np.zeros(0)
    for tap, rows in _taps(array):
        if out.size == 0:
            out, part = np.zeros((2, *rows.shape[:2], weights.shape[4]))
        np.matmul(rows, weights[tap], out=part)
        out += part
    whole = out.reshape(-1, weights.shape[4])[: z * (y + 2) * (x + 2)]
    return np.ascontiguousarray(whole.reshape(z, y + 2, x + 2, -1)[:, :y, :x])


def _convolve_gradients(array: Array, weights: Array, grad: Array) -> tuple[Array, Array]:
    """Gradients by the weights and by the input."""
    grad_rows = np.pad(grad, [(0, 0), (0, 2), (0, 2), (0, 0)]).reshape(-1, grad.shape[3])
    grad_rows = np.pad(grad_rows, [(0, -len(grad_rows) % BLOCK), (0, 0)])
    blocks = grad_rows.reshape(-1, BLOCK, grad.shape[3])
    weight_grad = np.empty(weights.shape)
    for tap, rows in _taps(array):
        weight_grad[tap] = (rows.swapaxes(1, 2) @ blocks).sum(0)
    flipped = np.ascontiguousarray(weights[::-1, ::-1, ::-1].swapaxes(3, 4))
    return weight_grad, _convolve(grad, flipped)


def loss_and_gradients(
    state: Mapping[str, Array],
    image: Array,
    logits: Array,
    labels: Array,
    weights: Array,
    masks: Array | None = None,
) -> tuple[float, Array, dict[str, Array]]:
    """Return loss, updated logits and {name: gradient}; masks as `relu_masks` of the core gives."""
    state = {name: array.astype(np.float64) for name, array in state.items()}
    depth = sum(name.endswith("_a/weights") for name in state)
    names = [f"seed_update/conv{i}_{half}" for i in range(depth) for half in "ab"]
    inputs: list[Array] = []
    gates: list[Array] = []
    stream = np.zeros(0)
    current = np.stack([image, logits], axis=3).astype(np.float64)
    for i, name in enumerate(names):
        inputs.append(current)
        out = _convolve(current, state[f"{name}/weights"]) + state[f"{name}/biases"]
        if i % 2 == 1:
            stream = out if i == 1 else stream + out
            out = stream
        gates.append(out > 0 if masks is None else masks[i] != 0)
        current = np.where(gates[-1], out, 0)
    head = "seed_update/conv_lom"
    column = state[f"{head}/weights"].reshape(-1)
    updated = logits + current @ column + state[f"{head}/biases"]
    losses = np.maximum(updated, 0) - updated * labels + np.log1p(np.exp(-np.abs(updated)))
    loss = float(np.mean(weights * losses))

    grad = weights * (1 / (1 + np.exp(-updated)) - labels) / image.size
    gradients = {
        f"{head}/weights": np.tensordot(grad, current, 3).reshape(1, 1, 1, -1, 1),
        f"{head}/biases": np.array([grad.sum()]),
    }
    stream_grad = grad[..., None] * column * gates[-1]
    inner_grad = np.zeros(0)
    for i in reversed(range(len(names))):
        weights_name, biases_name = f"{names[i]}/weights", f"{names[i]}/biases"
        here = stream_grad if i % 2 == 1 else inner_grad
        gradients[biases_name] = here.sum((0, 1, 2))
        gradients[weights_name], before = _convolve_gradients(inputs[i], state[weights_name], here)
        if i % 2 == 1:
            inner_grad = before * gates[i - 1]
        elif i > 0:
            stream_grad = stream_grad + before * gates[i - 1]
    return loss, updated, gradients
