# SPDX-License-Identifier: Apache-2.0
"""The training step of `floodtide bench step` in PyTorch: the yardstick of `--against torch`."""

from __future__ import annotations

import importlib
import time
from typing import Any

from floodtide.errors import UnsupportedError

LAYOUTS = ("contiguous", "channels_last_3d")


class TorchStep:
    """Forward, backward, entry-wise clipping and Adam of one flood-filling network in float32.

    Args:
        depth, features: Of the network.
        fov: Field of view (z, y, x) in voxels.
        batch: Examples of a step.
        threads: That PyTorch uses.
        layout: Memory format of activations and weights, one of LAYOUTS.

    Raises:
        UnsupportedError: If PyTorch is not installed.
    """

    def __init__(
        self,
        *,
        depth: int,
        features: int,
        fov: tuple[int, int, int],
        batch: int,
        threads: int,
        layout: str,
    ) -> None:
        try:
            torch: Any = importlib.import_module("torch")
        except ImportError as error:
            raise UnsupportedError(
                "step: --against torch needs PyTorch, which is not installed (pip install torch)"
            ) from error
        self._torch = torch
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self._format = (
            torch.channels_last_3d if layout == "channels_last_3d" else torch.contiguous_format
        )
        convolution = torch.nn.Conv3d
        self._layers = torch.nn.ModuleList(
            [
                convolution(2 if i == 0 else features, features, 3, padding=1)
                for i in range(2 * depth)
            ]
            + [convolution(features, 1, 1)]
        ).to(memory_format=self._format)
        self._optimizer = torch.optim.Adam(self._layers.parameters(), lr=1e-3)
        self._input = torch.randn(batch, 2, *fov).to(memory_format=self._format)
        self._labels = torch.where(torch.rand(batch, 1, *fov) < 0.4, 0.95, 0.05)

    def run(self) -> float:
        """Make one step and return its seconds."""
        start = time.perf_counter()
        functional = self._torch.nn.functional
        self._optimizer.zero_grad()
        layers = list(self._layers)
        stream = layers[1](functional.relu(layers[0](self._input)))
        for i in range(2, len(layers) - 1, 2):
            inner = functional.relu(layers[i](functional.relu(stream)))
            stream = stream + layers[i + 1](inner)
        logits = self._input[:, 1:] + layers[-1](functional.relu(stream))
        functional.binary_cross_entropy_with_logits(logits, self._labels).backward()
        for parameter in self._layers.parameters():
            parameter.grad.clamp_(-0.7, 0.7)
        self._optimizer.step()
        return time.perf_counter() - start
