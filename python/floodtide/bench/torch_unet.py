# SPDX-License-Identifier: Apache-2.0
"""The passes of `floodtide bench unet` in PyTorch, for comparison (`--against torch`)."""

from __future__ import annotations

from typing import Any

from floodtide.bench.shapes import CLASSES, UNetShape
from floodtide.bench.torch_ffn import Peer

LAYOUTS = ("contiguous", "channels_last")


class TorchUNet(Peer):
    """A 2-D U-Net with batch normalisation in PyTorch, with Dice and cross-entropy loss. See `Peer`."""

    def __init__(self, network: UNetShape, against: str, threads: int, layout: str) -> None:
        super().__init__(against, threads, layout)
        torch, memory_format = self._torch, self._format
        depth, features = network.depth, network.features
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
        self._images = torch.randn(network.batch, 1, *network.size).to(memory_format=memory_format)
        self._labels = (torch.rand(network.batch, *network.size) < 0.3).long()

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
        logits = self._logits()
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
            self._torch.softmax(self._logits(), 1)
        self._all.train()
