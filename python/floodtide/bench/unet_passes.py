# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the training step and the forward pass of a U-Net, compared with the peak and with PyTorch."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.bench.ffn_passes import TORCH
from floodtide.bench.rows import Row, in_own_process, stamped, threads, timed_in_turn
from floodtide.bench.shapes import CLASSES, Timing, UNetShape
from floodtide.errors import InternalError, InvalidArgumentError, UnsupportedError

MIB = 2**20


class Passes:
    """Forward and backward passes of floodtide's U-Net.

    A step moves the statistics, as in training. The next step therefore prepares all weights again, as after an update.
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
        self._gradients = np.zeros(self.core.parameters().size, np.float32)
        self._loss = nn.SegmentationLoss().core()

    def step(self) -> float:
        """Run the forward and backward pass and return the loss."""
        self._gradients[:] = 0
        share = 1 / len(self._images)
        report = self.core.loss_and_gradients(
            self._images, self._labels, None, None, self._loss, 1, [], self._gradients, share, None
        )
        self.core.move_statistics(self._gradients, 1)
        return float(report["loss"]) * share

    def forward(self) -> None:
        """Run the forward pass with moving statistics."""
        self.core.forward(self._images)

    def check(self) -> None:
        """Compare the gradient with the change of the loss along the gradient.

        Raises:
            InternalError: If they differ by 5 % or more.
        """
        self.step()
        parameters, trained = self.core.parameters(), self.core.trained_size()
        start, gradient = parameters.copy(), self._gradients[:trained].copy()
        length = 1e-2 / float(gradient @ gradient)

        def loss_at(factor: float) -> float:
            parameters[:trained] = start[:trained] + factor * length * gradient
            self.core.parameters_changed()
            return self.step()

        ratio = (loss_at(1) - loss_at(-1)) / 2e-2
        parameters[:] = start
        if not abs(ratio - 1) < 0.05:
            raise InternalError(
                f"bench unet: along the gradient the loss changes {ratio:.3f} times as much as the gradient predicts"
            )


def unet(network: UNetShape, timing: Timing, against: str = "") -> Iterator[Row]:
    """Measure training passes (forward and backward) and forward passes, and yield rows. Checks the gradient first.

    Rows have the fields of `floodtide.bench.rows` and `images_per_s`. Rows of floodtide have `kernels`, the kernel of
    each convolution. Rows of steps have `peak_memory_mib`, the peak memory of a process that only makes two steps. With
    `against`, rows of floodtide have `speedup`: median time of PyTorch, in the better of two memory formats, / median
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
    if against not in ("", *TORCH):
        raise InvalidArgumentError(
            f"unet: --against is '{against}', expected {' or '.join(TORCH)} or nothing"
        )
    if against and importlib.util.find_spec("torch") is None:
        raise UnsupportedError(f"unet: --against {against} needs PyTorch, which is not installed")
    Passes(UNetShape(depth=min(network.depth, 3), size=(16, 16), batch=2)).check()
    for count in timing.counts:
        with threads(count):
            yield from _rows(network, count, timing.seconds, against)


def peak_memory_mib(network: dict[str, Any], threads: int, layout: str, against: str) -> float:
    """Run two steps and return the peak memory of this process in MiB.

    Args:
        network: Fields of UNetShape.
        threads: Number of threads.
        layout: Memory format of PyTorch; "": measure floodtide.
        against: As for `unet`.
    """
    passes: Any
    if layout:
        from floodtide.bench.torch_unet import TorchUNet

        passes = TorchUNet(
            UNetShape(**network), threads=threads, layout=layout, bfloat16=against == "torch-bf16"
        )
    else:
        _core.set_num_threads(threads)
        passes = Passes(UNetShape(**network))
    for _ in range(2):
        passes.step()
    return float(_core.peak_resident_bytes() / MIB)


def _rows(network: UNetShape, count: int, seconds: float, against: str) -> Iterator[Row]:
    ours = Passes(network)
    ours.step()  # chooses kernels
    contestants: dict[str, Any] = {"floodtide": ours}
    layouts = {"floodtide": ""}
    if against:
        from floodtide.bench.torch_unet import LAYOUTS, TorchUNet

        for layout in LAYOUTS:
            name = f"{against} {layout}"
            contestants[name] = TorchUNet(
                network, threads=count, layout=layout, bfloat16=against == "torch-bf16"
            )
            layouts[name] = layout
    memory = {
        name: in_own_process(
            "floodtide.bench.unet_passes:peak_memory_mib",
            network=asdict(network),
            threads=count,
            layout=layout,
            against=against,
        )
        for name, layout in layouts.items()
    }
    kernels = ours.core.kernel_names()
    size = (1, *network.size)
    for what, flops in (
        ("step", ours.core.step_flops(size)),
        ("forward", ours.core.forward_flops(size)),
    ):
        bodies = {name: getattr(passes, what) for name, passes in contestants.items()}
        samples, peak = timed_in_turn(bodies, seconds)
        medians = {name: float(np.median(values)) for name, values in samples.items()}
        for name, values in samples.items():
            own = name == "floodtide"
            row: Row = {
                "name": f"unet {what}" if own else f"unet {what} {name}",
                "kernel": _counted(kernels) if own else name,
                "level": _core.active_isa(),
                "shape": str(network),
                "threads": count,
                "ranks": 1,
                "samples": len(values),
                "median_s": medians[name],
                "p10_s": float(np.quantile(values, 0.1)),
                "p90_s": float(np.quantile(values, 0.9)),
                "min_s": min(values),
                "gflops": network.batch * flops / medians[name] * 1e-9,
                "peak_gflops": float(np.median(peak)),
                "images_per_s": network.batch / medians[name],
            }
            row["ratio"] = row["gflops"] / row["peak_gflops"]
            row["best_ratio"] = network.batch * flops / row["min_s"] * 1e-9 / max(peak)
            if own:
                row["kernels"] = kernels
            if what == "step":
                row["peak_memory_mib"] = memory[name]
            if own and against:
                others = [key for key in samples if key != name]
                row["speedup"] = min(medians[key] for key in others) / medians[name]
                row["best_speedup"] = min(min(samples[key]) for key in others) / row["min_s"]
            yield stamped(row)


def _counted(kernels: str) -> str:
    """Return the kernels of a list "layer: kernel; ...", each with the number of layers that use it."""
    counts = Counter(layer.split(": ")[1] for layer in kernels.split("; "))
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
