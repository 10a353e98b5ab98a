# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the training step and the forward pass of a U-Net, compared with the peak and with PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.bench.rows import Row, compared, in_own_process, memory_mib, require_peer, threads
from floodtide.bench.shapes import CLASSES, Timing, UNetShape


class Passes:
    """Forward and backward passes of floodtide's U-Net.

    A step moves the statistics, as in training. The next step therefore prepares all weights again, as after an update.

    Attributes:
        gradients: Of the last pass.
        trained: Number of parameters, without statistics.
        flops: Floating-point operations of a step, counted as direct convolution.
    """

    def __init__(self, network: UNetShape) -> None:
        self.core = nn.UNet2D(
            nn.UNetOptions(depth=network.depth, features=network.features),
            classes=CLASSES,
            compute=network.compute,
        ).core
        random = np.random.default_rng(1)
        shape = (network.batch, 1, *network.size)
        self._images = random.standard_normal((*shape, 1), np.float32)
        self._labels = (random.random(shape) < 0.3).astype(np.uint8)
        self.gradients = np.zeros(self.core.parameters().size, np.float32)
        self._loss = nn.SegmentationLoss().core()
        self.trained = self.core.trained_size()
        self.flops = network.batch * self.core.step_flops((1, *network.size))

    def train(self) -> float:
        """Run the forward and backward pass and return the loss."""
        self.gradients[:] = 0
        share = 1 / len(self._images)
        report = self.core.loss_and_gradients(
            self._images, self._labels, None, None, self._loss, 1, [], self.gradients, share, None
        )
        return float(report["loss"]) * share

    def step(self) -> float:
        """Run the forward and backward pass, move the statistics, and return the loss."""
        loss = self.train()
        self.core.move_statistics(self.gradients, 1)
        return loss

    def forward(self) -> None:
        """Run the forward pass with moving statistics."""
        self.core.forward(self._images)


def unet(network: UNetShape, timing: Timing, against: str = "") -> Iterator[Row]:
    """Measure training passes (forward and backward) and forward passes, and yield rows.

    Rows have the fields of `floodtide.bench.rows` and `images_per_s`. Rows of floodtide have `kernels`, the kernel of
    each convolution; those of steps have `peak_memory_mib` and `step_memory_mib`, as those of `ffn_passes.step`. With
    `against`, they have `speedup`: median time of PyTorch, in the better of two memory formats, / median
    time of floodtide.

    Args:
        network: The network and batch to measure.
        timing: One set of rows for each number of threads. At least 20 samples of floodtide are taken, or 3 if all
            samples together take 2 s.
        against: "torch", "torch-bf16" (autocast to bfloat16) or "".

    Raises:
        InvalidArgumentError: If `against` is unknown or an argument is out of range.
        UnsupportedError: If PyTorch is not installed but needed.
    """
    require_peer("unet", against)
    for count in timing.counts:
        with threads(count):
            yield from _rows(network, count, timing.seconds, against)


def memory(network: dict[str, Any], threads: int) -> dict[str, float]:
    """Return what two steps need; see `memory_mib`."""

    def make() -> Callable[[], float]:
        _core.set_num_threads(threads)
        return Passes(UNetShape(**network)).step

    return memory_mib(make)


def _rows(network: UNetShape, count: int, seconds: float, against: str) -> Iterator[Row]:
    ours = Passes(network)
    ours.step()  # chooses kernels
    contestants: dict[str, Any] = {"floodtide": ours}
    if against:
        from floodtide.bench.torch_unet import LAYOUTS, TorchUNet

        for layout in LAYOUTS:
            contestants[f"{against} {layout}"] = TorchUNet(network, against, count, layout)
    needed = in_own_process(
        "floodtide.bench.unet_passes:memory", network=asdict(network), threads=count
    )
    kernels = ours.core.kernel_names()
    conditions = {"kernel": _counted(kernels), "shape": str(network), "threads": count}
    forward_flops = network.batch * ours.core.forward_flops((1, *network.size))
    for what, flops in (("step", ours.flops), ("forward", forward_flops)):
        rows = compared(
            f"unet {what}",
            {name: getattr(passes, what) for name, passes in contestants.items()},
            conditions,
            flops=flops,
            examples={"images_per_s": network.batch},
            seconds=seconds,
        )
        for row in rows:
            if row["name"] == f"unet {what}":
                row["kernels"] = kernels
                row |= needed if what == "step" else {}
            yield row


def _counted(kernels: str) -> str:
    """Return the kernels of a list "layer: kernel; ...", each with the number of layers that use it."""
    counts = Counter(layer.split(": ")[1] for layer in kernels.split("; "))
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
