# SPDX-License-Identifier: Apache-2.0
"""The passes of `floodtide bench step` and `forward` in PyTorch, for comparison (`--against torch`)."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from floodtide import _core
from floodtide.bench.shapes import FfnShape

LAYOUTS = ("contiguous", "channels_last_3d")


def torch_module() -> Any:
    """Return the module torch, limited to the instruction set that floodtide uses."""
    if _core.active_isa() == "avx2" and "torch" not in sys.modules:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
        os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")
    return importlib.import_module("torch")


class Peer:
    """PyTorch, prepared for the passes of a network.

    Args:
        against: Name of the peer, one of `floodtide.bench.rows.TORCH`.
        threads: Number of threads that PyTorch uses.
        layout: Memory format of activations and weights.
    """

    def __init__(self, against: str, threads: int, layout: str) -> None:
        self._torch = torch = torch_module()
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        name = "contiguous_format" if layout == "contiguous" else layout
        self._format = getattr(torch, name)
        self._bfloat16 = against == "torch-bf16"

    def _autocast(self) -> Any:
        torch = self._torch
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._bfloat16)


class TorchFfn(Peer):
    """A flood-filling network in PyTorch, with a training step and a forward pass. See `Peer`."""

    def __init__(self, network: FfnShape, against: str, threads: int, layout: str) -> None:
        super().__init__(against, threads, layout)
        torch, memory_format = self._torch, self._format
        convolution, features = torch.nn.Conv3d, network.features
        self._layers = torch.nn.ModuleList(
            [
                convolution(2 if i == 0 else features, features, 3, padding=1)
                for i in range(2 * network.depth)
            ]
            + [convolution(features, 1, 1)]
        ).to(memory_format=memory_format)
        self._optimizer = torch.optim.Adam(self._layers.parameters(), lr=1e-3)
        self._input = torch.randn(network.batch, 2, *network.fov).to(memory_format=memory_format)
        self._labels = torch.where(torch.rand(network.batch, 1, *network.fov) < 0.4, 0.95, 0.05)

    def step(self) -> None:
        """Run the forward pass, the backward pass, entry-wise clipping and an Adam update."""
        functional = self._torch.nn.functional
        self._optimizer.zero_grad()
        logits = self._logits().float()
        functional.binary_cross_entropy_with_logits(logits, self._labels).backward()
        for parameter in self._layers.parameters():
            parameter.grad.clamp_(-0.7, 0.7)
        self._optimizer.step()

    def forward(self) -> None:
        """Run the forward pass without recording operations for gradients."""
        with self._torch.inference_mode():
            self._logits()

    def _logits(self) -> Any:
        functional = self._torch.nn.functional
        with self._autocast():
            layers = list(self._layers)
            stream = layers[1](functional.relu(layers[0](self._input)))
            for i in range(2, len(layers) - 1, 2):
                inner = functional.relu(layers[i](functional.relu(stream)))
                stream = stream + layers[i + 1](inner)
            return self._input[:, 1:] + layers[-1](functional.relu(stream))
