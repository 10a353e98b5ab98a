# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the training step and the forward pass of a flood-filling network and of a U-Net.

They are compared with the peak multiply-add rate and, on request, with PyTorch or another convolution kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.bench.rows import TORCH, Row, compared, in_own_process, require_peer, threads
from floodtide.bench.shapes import (
    CLASSES,
    KERNELS,
    POOLS,
    FfnShape,
    NetworkShape,
    Timing,
    UNetShape,
)

_START = 2.944439  # logit of 0.95


class FfnPasses:
    """Passes of a flood-filling network on random numbers. Each example of the batch is a field of view.

    Args:
        network: The network and the batch.
        kernel: Name of the convolution kernel; "": the dispatch chooses one for each convolution.

    Attributes:
        gradients: Of the last pass.
        trained: Number of parameters.
        flops: Floating-point operations of a step and of a forward pass, counted as direct convolution.
    """

    def __init__(self, network: FfnShape, kernel: str = "") -> None:
        self.core = _core.Ffn(
            _core.FfnOptions(
                depth=network.depth,
                features=network.features,
                fov=network.fov,
                deltas=(0, 0, 0),
                compute=network.compute,
                parallel=network.parallel,
                kernel=kernel,
            )
        )
        random = np.random.default_rng(1)
        shape = (network.batch, *network.fov)
        self._images = random.standard_normal(shape, np.float32)
        self._labels = np.where(random.random(shape) < 0.4, 0.95, 0.05).astype(np.float32)
        self._logits = np.full(shape, -_START, np.float32)
        z, y, x = network.fov
        self._logits[:, z // 2, y // 2, x // 2] = _START
        self._forward: str | None = None
        self.trained = self.core.parameters().size
        self.gradients = np.zeros(self.trained, np.float32)
        self._optimizer = _core.Optimizer("adam", {}, [self.trained])
        self.flops = {
            "step": network.batch * self.core.step_flops(network.fov),
            "forward": network.batch * self.core.forward_flops(network.fov),
        }

    def train(self) -> float:
        """Run the forward and backward pass, and return the mean loss."""
        self.gradients[:] = 0
        share = 1 / len(self._images)
        losses = self.core.loss_and_gradients(
            self._images, self._logits, self._labels, None, self.gradients, share
        )
        return sum(losses) * share

    def step(self) -> float:
        """Run a training step: both passes, clipping and Adam. Return the mean loss before the update."""
        loss = self.train()
        update(self, self._optimizer)
        return loss

    def forward(self) -> None:
        """Run the forward pass."""
        self.core.forward(self._images, self._logits, self._forward)

    def kernels(self, name: str) -> dict[str, str]:
        """Choose the kernels of a pass, and return the fields of a row about them."""
        kernels = self.core.kernel_names()
        if name == "forward":
            self._forward = self.core.fastest_forward()[0]
            if self._forward == "fft":
                kernels = "fft; conv0_a: " + kernels.partition("conv0_a: ")[2].partition(";")[0]
        return {"kernel": kernels}


class UNetPasses:
    """Passes of floodtide's U-Net on random numbers; attributes as of `FfnPasses`.

    A step moves the statistics, as in training. The next step therefore prepares all weights again, as after an update.
    """

    def __init__(self, network: UNetShape) -> None:
        options = nn.UNetOptions(
            depth=network.depth, features=network.features, kernels=KERNELS, pools=POOLS
        )
        self.core = nn.UNet(options, classes=CLASSES, compute=network.compute).core
        random = np.random.default_rng(1)
        shape = (network.batch, 1, *network.size)
        self._images = random.standard_normal((*shape, 1), np.float32)
        self._labels = (random.random(shape) < 0.3).astype(np.uint8)
        self.gradients = np.zeros(self.core.parameters().size, np.float32)
        self._loss = nn.SegmentationLoss().core()
        self.trained = self.core.trained_size()
        self.flops = {
            "step": network.batch * self.core.step_flops((1, *network.size)),
            "forward": network.batch * self.core.forward_flops((1, *network.size)),
        }

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

    def kernels(self, name: str) -> dict[str, str]:
        """Choose the kernels of a pass, and return the fields of a row about them."""
        self.step()
        names = self.core.kernel_names()
        counts = Counter(layer.split(": ")[1] for layer in names.split("; "))
        counted = ", ".join(f"{count} {kernel}" for kernel, count in counts.most_common())
        return {"kernel": counted, "kernels": names}


def passes_of(network: NetworkShape) -> FfnPasses | UNetPasses:
    """Return the passes of a network."""
    return FfnPasses(network) if isinstance(network, FfnShape) else UNetPasses(network)


def update(passes: FfnPasses | UNetPasses, optimizer: _core.Optimizer) -> None:
    """Clip the gradients of passes at google/ffn's default, and update the parameters."""
    gradients = passes.gradients[: passes.trained]
    np.clip(gradients, -0.7, 0.7, out=gradients)
    with passes.core.changing():
        optimizer.step(passes.core.parameters()[: passes.trained], gradients, 1e-3)


def measure(
    network: NetworkShape, names: Sequence[str], timing: Timing, against: str = ""
) -> Iterator[Row]:
    """Measure passes of a network, and yield rows.

    Rows have the fields of `floodtide.bench.rows`, and `fovs_per_s` or `images_per_s`. Rows of floodtide also have
    `peak_memory_mib` (peak memory of a process that only makes two such passes) and `step_memory_mib`
    (the growth of that memory by the passes). With `against`, they have `speedup`: median time of the
    other implementation / median time of floodtide; for PyTorch, the better of two memory formats.
    `gflops` counts the operations of direct convolution. Rows of U-Nets have `kernels`, the kernel of each convolution.

    Args:
        network: The network and batch to measure.
        names: Passes: "step" (forward and backward; of a flood-filling network also clipping and Adam), or "forward"
            (of a flood-filling network in the faster way, as in segmentation).
        timing: One set of rows for each number of threads. At least 20 samples are taken, or 3 if all samples
            together take 2 s.
        against: "torch" for the same pass in PyTorch; "torch-bf16" for PyTorch with autocast to bfloat16; for a
            flood-filling network, the name of a convolution kernel for the same pass with this kernel; or "".

    Raises:
        InvalidArgumentError: If an argument is out of range or `against` is unknown.
        UnsupportedError: If PyTorch is not installed but needed, or the kernel needs another processor or build.
    """
    flooding = isinstance(network, FfnShape)
    kernels = [kernel for kernel, _ in _core.bench.conv_kernels()] if flooding else []
    require_peer("step" if flooding else "unet", against, kernels)
    for count in timing.counts:
        with threads(count):
            for name in names:
                yield from _rows(network, name, count, timing.seconds, against)


def _rows(
    network: NetworkShape, name: str, count: int, seconds: float, against: str
) -> Iterator[Row]:
    ours = passes_of(network)
    kernels = ours.kernels(name)
    bodies: dict[str, Callable[[], Any]] = {"floodtide": getattr(ours, name)}
    if against in TORCH:
        from floodtide.bench import torch_peers

        for layout, peer in torch_peers.of(network, against, count).items():
            bodies[f"{against} {layout}"] = getattr(peer, name)
    elif isinstance(network, FfnShape) and against:
        bodies[against] = getattr(FfnPasses(network, against), name)
    needed = in_own_process(
        "floodtide.bench.passes:memory",
        kind=type(network).__name__,
        network=asdict(network),
        name=name,
        threads=count,
    )
    title = network.prefix + name
    for row in compared(
        title,
        bodies,
        kernels | {"shape": str(network), "threads": count},
        flops=ours.flops[name],
        examples={network.rate: network.batch},
        seconds=seconds,
    ):
        yield row | needed if row["name"] == title else row


def memory(kind: str, network: dict[str, Any], name: str, threads: int) -> dict[str, float]:
    """Return the peak memory of this process after two passes, and its growth by the passes, in MiB.

    Args:
        kind: "FfnShape" or "UNetShape".
        network: Its fields.
        name: The pass, as for `measure`.
        threads: Number of threads.
    """
    before = _core.resident_bytes()
    _core.set_num_threads(threads)
    made = passes_of({"FfnShape": FfnShape, "UNetShape": UNetShape}[kind](**network))
    made.kernels(name)
    for _ in range(2):
        getattr(made, name)()
    peak = _core.peak_resident_bytes()
    return {"peak_memory_mib": peak / 2**20, "step_memory_mib": (peak - before) / 2**20}
