# SPDX-License-Identifier: Apache-2.0
"""The passes of `floodtide bench step`, `forward` and `unet` in PyTorch, for comparison (`--against torch`)."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from floodtide import _core
from floodtide.bench.shapes import CLASSES


def of(ours: Any, against: str, threads: int) -> dict[str, Peer]:
    """Return the network of `FfnPasses` or `UNetPasses` in PyTorch in each memory format, {format: its passes}.

    Of torch-compile, channels last is first: that format was faster for 3-D networks, and as fast for 2-D ones.
    """
    peers: dict[str, type[TorchFfn | TorchUNet]] = {"step": TorchFfn, "unet": TorchUNet}
    peer = peers[ours.peer]
    layouts = peer.formats[::-1] if against == "torch-compile" else peer.formats
    return {layout: peer(ours, against, threads, layout) for layout in layouts}


class Peer:
    """PyTorch, prepared for the passes of a network, and limited to the instruction set that floodtide uses.

    Args:
        against: Name of the peer in `floodtide.bench.rows.PEERS`.
        layout: Memory format of activations and weights.
    """

    def __init__(self, against: str, threads: int, layout: str) -> None:
        if _core.active_isa() == "avx2" and "torch" not in sys.modules:
            os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
            os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")
        self._torch = torch = importlib.import_module("torch")
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self._format = getattr(torch, "contiguous_format" if layout == "contiguous" else layout)
        self._bfloat16 = against == "torch-bf16"
        self._compiles = against == "torch-compile"

    def _prepared(self, function: Any) -> Any:
        """Return the function, compiled if the peer is so."""
        return self._torch.compile(function) if self._compiles else function

    def _autocast(self) -> Any:
        torch = self._torch
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._bfloat16)


class TorchFfn(Peer):
    """A flood-filling network in PyTorch, with a training step and a forward pass. See `Peer`."""

    formats = ("contiguous", "channels_last_3d")

    def __init__(self, ours: Any, against: str, threads: int, layout: str) -> None:
        super().__init__(against, threads, layout)
        torch, memory_format = self._torch, self._format
        convolution, features = torch.nn.Conv3d, ours.model.features
        self._layers = torch.nn.ModuleList(
            [
                convolution(2 if i == 0 else features, features, 3, padding=1)
                for i in range(2 * ours.model.depth)
            ]
            + [convolution(features, 1, 1)]
        ).to(memory_format=memory_format)
        self._optimizer = torch.optim.Adam(self._layers.parameters(), lr=1e-3)
        self._input = torch.randn(ours.batch, 2, *ours.model.fov).to(memory_format=memory_format)
        self._labels = torch.where(torch.rand(ours.batch, 1, *ours.model.fov) < 0.4, 0.95, 0.05)
        self._run = self._prepared(self._logits)

    def step(self) -> None:
        """Run the forward pass, the backward pass, entry-wise clipping and an Adam update."""
        functional = self._torch.nn.functional
        self._optimizer.zero_grad()
        logits = self._run().float()
        functional.binary_cross_entropy_with_logits(logits, self._labels).backward()
        for parameter in self._layers.parameters():
            parameter.grad.clamp_(-0.7, 0.7)
        self._optimizer.step()

    def forward(self) -> None:
        """Run the forward pass without recording operations for gradients."""
        with self._torch.inference_mode():
            self._run()

    def _logits(self) -> Any:
        functional = self._torch.nn.functional
        with self._autocast():
            layers = list(self._layers)
            stream = layers[1](functional.relu(layers[0](self._input)))
            for i in range(2, len(layers) - 1, 2):
                inner = functional.relu(layers[i](functional.relu(stream)))
                stream = stream + layers[i + 1](inner)
            return self._input[:, 1:] + layers[-1](functional.relu(stream))


class TorchUNet(Peer):
    """A 2-D U-Net with batch normalisation in PyTorch, with Dice and cross-entropy loss. See `Peer`."""

    formats = ("contiguous", "channels_last")

    def __init__(self, ours: Any, against: str, threads: int, layout: str) -> None:
        super().__init__(against, threads, layout)
        torch, memory_format = self._torch, self._format
        depth, features = ours.model.depth, ours.model.features
        widths = [features << level for level in range(depth)]
        self._down = torch.nn.ModuleList(
            self._pair(inputs, width) for inputs, width in zip([1, *widths], widths, strict=False)
        )
        self._up = torch.nn.ModuleList(
            torch.nn.ConvTranspose2d(2 * width, width, 2, 2) for width in widths[:-1]
        )
        self._joined = torch.nn.ModuleList(self._pair(2 * width, width) for width in widths[:-1])
        self._head = torch.nn.Conv2d(features, CLASSES, 1)
        self._all = torch.nn.ModuleList([self._down, self._up, self._joined, self._head])
        self._all.to(memory_format=memory_format)
        self._images = torch.randn(ours.batch, 1, *ours.sizes).to(memory_format=memory_format)
        self._labels = (torch.rand(ours.batch, *ours.sizes) < 0.3).long()
        self._run = self._prepared(self._logits)

    def _pair(self, inputs: int, outputs: int) -> Any:
        nn = self._torch.nn
        layers = []
        for channels in (inputs, outputs):
            layers += [
                nn.Conv2d(channels, outputs, 3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
            ]
        return nn.Sequential(*layers)

    def _logits(self) -> Any:
        torch = self._torch
        with self._autocast():
            x, skips = self._images, []
            for level, pair in enumerate(self._down):
                x = pair(x if level == 0 else torch.nn.functional.max_pool2d(x, 2))
                skips.append(x)
            for level in reversed(range(len(self._up))):
                x = self._joined[level](torch.cat([skips[level], self._up[level](x)], 1))
            return self._head(x).float()

    def step(self) -> float:
        """Run the forward and backward pass and return the loss."""
        torch = self._torch
        self._all.zero_grad()
        logits = self._run()
        truth = torch.nn.functional.one_hot(self._labels, CLASSES).movedim(-1, 1)
        p = torch.softmax(logits, 1)[:, 1:]
        overlap = (p * truth[:, 1:]).sum((2, 3))
        total = p.sum((2, 3)) + truth[:, 1:].sum((2, 3))
        loss = 1 - ((2 * overlap + 1) / (total + 1)).mean()
        loss = loss + torch.nn.functional.cross_entropy(logits, self._labels)
        loss.backward()
        return float(loss.detach())

    def forward(self) -> None:
        """Run the forward pass with moving statistics, without recording operations for gradients."""
        self._all.eval()
        with self._torch.inference_mode():
            self._torch.softmax(self._run(), 1)
        self._all.train()
