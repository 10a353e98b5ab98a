# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the training step and the forward pass of a flood-filling network and of a U-Net, and of a convolution.

They are compared with the peak multiply-add rate and, on request, with other programs.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from floodtide import _core, config, nn
from floodtide.base.networks import FfnConfig
from floodtide.bench.peers import passes_in
from floodtide.bench.rows import ONNX, Row, compared, output_of, peers_of, threads
from floodtide.bench.shapes import CLASSES, ConvShape, Timing
from floodtide.config import Config
from floodtide.errors import InvalidArgumentError

_START = 2.944439  # logit of 0.95
_FLAT = (((1, 3, 3),), ((1, 2, 2),))  # kernels and pools of the U-Net


class Passes(ABC):
    """Passes of a network on random numbers.

    Args:
        settings: The network, and the batch.
        core: The network.
        shape: Of a batch (n, z, y, x).
        halved: Axes along which each level of the network has half as many voxels.

    Attributes:
        prefix, rate: Of the names of rows, and the name of examples per second.
        model: The architecture.
        batch: Examples of a pass.
        sizes: Sizes of an example along its axes, as an ONNX model has them.
        trained: Number of parameters, the first ones of the gradients.
        gradients: Of the last pass.
        flops: Floating-point operations of a step and of a forward pass, counted as direct convolution.
    """

    prefix, rate = "", "fovs_per_s"
    core: Any
    sizes: tuple[int, ...]

    def __init__(self, settings: Config, core: Any, shape: Sequence[int], halved: int = 0) -> None:
        self.model: Any = settings.model
        self.core, self.batch = core, shape[0]
        self.trained = self.core.parameters().size
        self.gradients = np.zeros(self.trained, np.float32)
        self.flops = flops_of(core, math.prod(shape), halved)

    def __str__(self) -> str:
        size = "x".join(map(str, self.sizes))
        shape = f"depth {self.model.depth}, {self.model.features} features"
        return f"{shape}, {size}, batch {self.batch}"

    @abstractmethod
    def train(self) -> float:
        """Run the forward and backward pass, and return the mean loss."""

    @functools.cached_property
    def _optimizer(self) -> _core.Optimizer:
        return _core.Optimizer("adam", {}, [self.trained])

    def update(self) -> None:
        """Clip the gradients at google/ffn's default, and update the parameters."""
        gradients = self.gradients[: self.trained]
        np.clip(gradients, -0.7, 0.7, out=gradients)
        with self.core.changing():
            self._optimizer.step(self.core.parameters()[: self.trained], gradients, 1e-3)


class FfnPasses(Passes):
    """Passes of a flood-filling network. Each example of the batch is the field of view of a walker."""

    def __init__(self, settings: Config) -> None:
        model: Any = settings.model
        core = dataclasses.replace(model, deltas=(0, 0, 0)).core(
            compute=settings.run.compute, parallel=settings.run.parallel
        )
        self.sizes = model.fov
        shape = (settings.training.walkers or 1, *model.fov)
        super().__init__(settings, _core.Ffn(core), shape)
        random = np.random.default_rng(1)
        self._images = random.standard_normal(shape, np.float32)
        self._labels = np.where(random.random(shape) < 0.4, 0.95, 0.05).astype(np.float32)
        self._logits = np.full(shape, -_START, np.float32)
        z, y, x = model.fov
        self._logits[:, z // 2, y // 2, x // 2] = _START
        self._forward: str | None = None

    def train(self) -> float:
        self.gradients[:] = 0
        losses = self.core.loss_and_gradients(
            self._images, self._logits, self._labels, None, self.gradients, 1 / self.batch
        )
        return float(np.mean(losses))

    def step(self) -> float:
        """Run a training step: both passes, clipping and Adam. Return the mean loss before the update."""
        loss = self.train()
        self.update()
        return loss

    def forward(self) -> None:
        """Run the forward pass."""
        self.core.forward(self._images, self._logits, self._forward)

    def kernels(self, name: str) -> str:
        """Choose the kernels of a pass, and return their names."""
        if name == "forward":
            self._forward = nn.FFN.of_core(self.core).fastest_forward()[0]
        return "fft" if self._forward == "fft" else self.core.kernel_names()


class UNetPasses(Passes):
    """Passes of a 2-D U-Net (batch normalisation, softmax, Dice and cross-entropy).

    A batch has training.batch sections. A step moves the statistics, as in training. The next step therefore prepares
    all weights again, as after an update.
    """

    prefix, rate = "unet ", "images_per_s"

    def __init__(self, settings: Config) -> None:
        model: Any = settings.model
        data = settings.data
        size = (1, *data.size) if isinstance(data.patch, str) else data.patch
        if size[0] != 1 or 0 in size or (model.kernels, model.pools) != _FLAT:
            raise InvalidArgumentError(
                f"data.patch is {data.patch} for kernels {model.kernels} and pools {model.pools}, expected patches of"
                f" one section, and {_FLAT[0]} and {_FLAT[1]}"
            )
        self.sizes = size[1:]
        shape = (settings.training.batch, *size)
        core = nn.UNet(model, classes=CLASSES, compute=settings.run.compute).core
        super().__init__(settings, core, shape, halved=2)
        self.trained = core.trained_size()
        random = np.random.default_rng(1)
        self._images = random.standard_normal((*shape, 1), np.float32)
        self._labels = (random.random(shape) < 0.3).astype(np.uint8)
        self._loss = nn.SegmentationLoss().core()

    def train(self) -> float:
        self.gradients[:] = 0
        share = 1 / self.batch
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

    def kernels(self, _: str) -> str:
        """Choose the kernels of all passes, and return how often each is used."""
        self.step()
        names = self.core.kernel_names().split("; ")
        counts = Counter(layer.split(": ")[1] for layer in names)
        return ", ".join(f"{count} {kernel}" for kernel, count in counts.most_common())


def flops_of(core: _core.Network, voxels: int, halved: int = 0) -> dict[str, float]:
    """Return the floating-point operations of a step and of a forward pass, counted as direct convolution.

    Args:
        voxels: Of a batch.
        halved: Axes along which each level of the network has half as many voxels.
    """
    products = []
    for name, shape, _ in core.layout():
        if name.endswith("/weights") and "conv_lom" not in name:
            level = re.match(r"(?:en|de)coder(\d+)/(up)?", name)
            depth = int(level[1]) + bool(level[2]) if level else 0
            products.append(math.prod(shape) * voxels / 2 ** (halved * depth))
    forward = 2 * sum(products)
    return {"step": 3 * forward - 2 * products[0], "forward": forward}


def passes_of(settings: Config) -> FfnPasses | UNetPasses:
    """Return the passes of the network of a configuration."""
    return (FfnPasses if isinstance(settings.model, FfnConfig) else UNetPasses)(settings)


def measure(
    settings: Config, names: Sequence[str], timing: Timing, against: str = ""
) -> Iterator[Row]:
    """Measure passes of a network, and yield rows.

    Rows have the fields of `floodtide.bench.rows`, and `fovs_per_s` or `images_per_s`. Rows of floodtide also have
    `peak_memory_mib` (peak memory of a process that only makes two such passes) and `step_memory_mib`
    (the growth of that memory by the passes). With `against`, they have `speedup`: shortest median time of the
    others / median time of floodtide. Peers that are far slower are left out, and so is PyTorch's slower memory format.
    `gflops` counts the operations of direct convolution.

    Args:
        settings: The network and batch to measure, see `FfnPasses` and `UNetPasses`.
        names: Passes: "step" (forward and backward; of a flood-filling network also clipping and Adam), or "forward"
            (of a flood-filling network in the faster way, as in segmentation).
        timing: One set of rows for each number of threads. At least 20 samples are taken, or 3 if all samples
            together take 2 s.
        against: Programs of `floodtide.bench.rows.PEERS` for the same pass, separated by commas, or "". Those that run
            ONNX models have no training step, and no row for it.
    """
    peers = peers_of("bench", against)
    if "forward" not in names and peers and set(peers) <= set(ONNX):
        raise InvalidArgumentError(
            f"bench: {against} runs forward passes only, expected a program that trains, such as torch"
        )
    for count in timing.counts:
        with threads(count):
            for name in names:
                yield from _rows(settings, name, count, timing.seconds, peers)


def _rows(
    settings: Config, name: str, count: int, seconds: float, peers: Sequence[str]
) -> Iterator[Row]:
    ours = passes_of(settings)
    conditions = {"kernel": ours.kernels(name), "shape": str(ours)}
    bodies: dict[str, Callable[[], Any]] = {"floodtide": getattr(ours, name)}
    for peer in peers:
        bodies |= passes_in(peer, ours, name, count)
    code = "import sys; from floodtide.bench.passes import memory; memory(*sys.argv[1:])"
    words = (json.dumps(config.to_dict(settings)), name, str(count))
    needed = json.loads(output_of("measuring the memory failed", "-c", code, *words))
    first, *others = compared(
        ours.prefix + name,
        bodies,
        conditions,
        flops=ours.flops[name],
        examples={ours.rate: ours.batch},
        seconds=seconds,
    )
    yield first | needed
    yield from others


def conv(shape: ConvShape, timing: Timing, against: str = "") -> Iterator[Row]:
    """Measure forward, backward-data and backward-weights of one convolution, and yield rows. Checks results first.

    The input of forward and backward-weights passes a ReLU. Its mask is applied to the result of backward-data.

    Args:
        timing: One set of rows for each number of threads. At least 20 samples are taken, or 3 if all samples together
            take 2 s.
        against: Name of a second kernel to compare with, from `_core.bench.conv_kernels`. Samples of the two alternate.
    """
    for count in timing.counts:
        with threads(count):
            convolution = (shape.size, *shape.channels, (3, 3, 3), "fp32")
            ours = _core.bench.ConvPasses(*convolution, "")
            both = {"floodtide": ours}
            if against:
                both[against] = _core.bench.ConvPasses(*convolution, against)
            size, channels = "x".join(map(str, shape.size)), "{} to {}".format(*shape.channels)
            described = f"{size}, kernel 3x3x3, {channels} channels"
            for name in ("forward", "backward_data", "backward_weights"):
                yield from compared(
                    f"conv {name}",
                    {key: getattr(passes, name) for key, passes in both.items()},
                    {"kernel": ours.kernel(), "shape": described},
                    flops=ours.flops(),
                    examples={},
                    seconds=timing.seconds,
                )


def memory(settings: str, name: str, threads: str) -> None:
    """Print the peak memory of this process after two passes, and its growth by the passes, in MiB, as JSON.

    Args:
        settings: The configuration as JSON.
        name: The pass, as for `measure`.
    """
    network = config.from_dict(json.loads(settings))
    before = _core.resident_bytes()
    _core.set_num_threads(int(threads))
    made = passes_of(network)
    made.kernels(name)
    for _ in range(2):
        getattr(made, name)()
    peak = _core.peak_resident_bytes()
    print(json.dumps({"peak_memory_mib": peak / 2**20, "step_memory_mib": (peak - before) / 2**20}))
