# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the training step and the forward pass of a flood-filling network and of a U-Net.

They are compared with the peak multiply-add rate and, on request, with PyTorch or another convolution kernel.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from floodtide import _core, config, nn
from floodtide.base.networks import FfnConfig, UNetConfig
from floodtide.bench.rows import ONNX, PEERS, Row, compared, output_of, peers_of, threads
from floodtide.bench.shapes import CLASSES, Timing
from floodtide.config import Config
from floodtide.errors import InvalidArgumentError

_START = 2.944439  # logit of 0.95
_FLAT = (((1, 3, 3),), ((1, 2, 2),))  # kernels and pools of the U-Net


class FfnPasses:
    """Passes of a flood-filling network on random numbers. Each example of the batch is a field of view.

    Args:
        settings: The network, and the batch: a field of view for each walker (0: one).
        kernel: Name of the convolution kernel; "": the dispatch chooses one for each convolution.

    Attributes:
        peer: Name of the same passes in PyTorch.
        others: Names of the convolution kernels with which passes can be compared.
        model: The architecture.
        batch: Examples of a pass.
        sizes: Sizes of an example along its axes, as an ONNX model has them.
        gradients: Of the last pass.
        trained: Number of parameters.
        flops: Floating-point operations of a step and of a forward pass, counted as direct convolution.
    """

    prefix, rate, peer = "", "fovs_per_s", "step"
    others: ClassVar[list[str]] = [kernel for kernel, _ in _core.bench.conv_kernels()]
    model: FfnConfig

    def __init__(self, settings: Config, kernel: str = "") -> None:
        model: Any = settings.model
        self.model, self.batch = model, settings.training.walkers or 1
        self.core = _core.Ffn(
            dataclasses.replace(self.model, deltas=(0, 0, 0)).core(
                compute=settings.run.compute, parallel=settings.run.parallel, kernel=kernel
            )
        )
        random = np.random.default_rng(1)
        self.sizes: tuple[int, ...] = self.model.fov
        shape = (self.batch, *self.sizes)
        self._images = random.standard_normal(shape, np.float32)
        self._labels = np.where(random.random(shape) < 0.4, 0.95, 0.05).astype(np.float32)
        self._logits = np.full(shape, -_START, np.float32)
        z, y, x = self.model.fov
        self._logits[:, z // 2, y // 2, x // 2] = _START
        self._forward: str | None = None
        self.trained = self.core.parameters().size
        self.gradients = np.zeros(self.trained, np.float32)
        self._optimizer = _core.Optimizer("adam", {}, [self.trained])
        self.flops = flops_of(self.core, self.batch * math.prod(self.model.fov))

    def __str__(self) -> str:
        depth, features, (z, y, x) = self.model.depth, self.model.features, self.model.fov
        return f"depth {depth}, fov {z}x{y}x{x}, {features} features, batch {self.batch}"

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
            self._forward = nn.FFN.of_core(self.core).fastest_forward()[0]
            if self._forward == "fft":
                kernels = "fft; conv0_a: " + kernels.partition("conv0_a: ")[2].partition(";")[0]
        return {"kernel": kernels}


class UNetPasses:
    """Passes of a 2-D U-Net (batch normalisation, softmax, Dice and cross-entropy) on random numbers.

    Attributes are those of `FfnPasses`; `sizes` are those of a section (y, x) in pixels. A batch has training.batch
    sections. A step moves the statistics, as in training. The next step therefore prepares all weights again, as after
    an update.
    """

    prefix, rate, peer = "unet ", "images_per_s", "unet"
    others: ClassVar[list[str]] = []
    model: UNetConfig

    def __init__(self, settings: Config) -> None:
        model: Any = settings.model
        self.model, self.batch = model, settings.training.batch
        data = settings.data
        size = (1, *data.size) if isinstance(data.patch, str) else data.patch
        if size[0] != 1 or 0 in size or (self.model.kernels, self.model.pools) != _FLAT:
            raise InvalidArgumentError(
                f"data.patch is {data.patch} for kernels {self.model.kernels} and pools {self.model.pools}, expected"
                f" patches of one section, and {_FLAT[0]} and {_FLAT[1]}"
            )
        self.sizes = size[1:]
        self.core = nn.UNet(self.model, classes=CLASSES, compute=settings.run.compute).core
        random = np.random.default_rng(1)
        shape = (self.batch, *size)
        self._images = random.standard_normal((*shape, 1), np.float32)
        self._labels = (random.random(shape) < 0.3).astype(np.uint8)
        self.gradients = np.zeros(self.core.parameters().size, np.float32)
        self._loss = nn.SegmentationLoss().core()
        self.trained = self.core.trained_size()
        self.flops = flops_of(self.core, math.prod(shape), halvings=2)

    def __str__(self) -> str:
        y, x = self.sizes
        depth, features = self.model.depth, self.model.features
        return f"depth {depth}, {features} features, {y}x{x}, batch {self.batch}"

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


def flops_of(core: _core.Network, voxels: int, halvings: int = 0) -> dict[str, float]:
    """Return the floating-point operations of a step and of a forward pass, counted as direct convolution.

    Args:
        voxels: Of a batch.
        halvings: Axes along which each level of the network has half as many voxels.
    """
    products = []
    for name, shape, _ in core.layout():
        if name.endswith("/weights") and "conv_lom" not in name:
            level = re.match(r"(?:en|de)coder(\d+)/(up)?", name)
            depth = int(level[1]) + bool(level[2]) if level else 0
            products.append(math.prod(shape) * voxels / 2 ** (halvings * depth))
    forward = 2 * sum(products)
    return {"step": 3 * forward - 2 * products[0], "forward": forward}


def _class_of(settings: Config) -> type[FfnPasses | UNetPasses]:
    return FfnPasses if isinstance(settings.model, FfnConfig) else UNetPasses


def passes_of(settings: Config) -> FfnPasses | UNetPasses:
    """Return the passes of the network of a configuration."""
    return _class_of(settings)(settings)


def update(passes: FfnPasses | UNetPasses, optimizer: _core.Optimizer) -> None:
    """Clip the gradients of passes at google/ffn's default, and update the parameters."""
    gradients = passes.gradients[: passes.trained]
    np.clip(gradients, -0.7, 0.7, out=gradients)
    with passes.core.changing():
        optimizer.step(passes.core.parameters()[: passes.trained], gradients, 1e-3)


def measure(
    settings: Config, names: Sequence[str], timing: Timing, against: str = ""
) -> Iterator[Row]:
    """Measure passes of a network, and yield rows.

    Rows have the fields of `floodtide.bench.rows`, and `fovs_per_s` or `images_per_s`. Rows of floodtide also have
    `peak_memory_mib` (peak memory of a process that only makes two such passes) and `step_memory_mib`
    (the growth of that memory by the passes). With `against`, they have `speedup`: shortest median time of the
    others / median time of floodtide. PyTorch runs in two memory formats. Peers that are far slower are left out.
    `gflops` counts the operations of direct convolution. Rows of U-Nets have `kernels`, the kernel of each convolution.

    Args:
        settings: The network and batch to measure, see `FfnPasses` and `UNetPasses`.
        names: Passes: "step" (forward and backward; of a flood-filling network also clipping and Adam), or "forward"
            (of a flood-filling network in the faster way, as in segmentation).
        timing: One set of rows for each number of threads. At least 20 samples are taken, or 3 if all samples
            together take 2 s.
        against: Programs of `floodtide.bench.rows.PEERS` for the same pass, separated by commas; for a flood-filling
            network also names of convolution kernels, for the same pass with this kernel; or "". Those that run ONNX
            models have no training step, and no row for it.
    """
    passes = _class_of(settings)
    peers = peers_of(passes.peer, against, passes.others)
    if "forward" not in names and peers and set(peers) <= set(ONNX):
        raise InvalidArgumentError(
            f"{passes.peer}: {against} runs forward passes only, expected a program that trains, such as torch"
        )
    for count in timing.counts:
        with threads(count):
            for name in names:
                yield from _rows(settings, name, count, timing.seconds, peers)


def _rows(
    settings: Config, name: str, count: int, seconds: float, peers: Sequence[str]
) -> Iterator[Row]:
    ours = passes_of(settings)
    kernels = ours.kernels(name)
    bodies: dict[str, Callable[[], Any]] = {"floodtide": getattr(ours, name)}
    for peer in peers:
        if peer in ONNX and name == "forward":
            from floodtide.bench.onnx_peers import OnnxPeer

            bodies[peer] = OnnxPeer(peer, ours, count).forward
        elif peer in PEERS and peer not in ONNX:
            from floodtide.bench import torch_peers

            for layout, made in torch_peers.of(ours, peer, count).items():
                bodies[f"{peer} {layout}"] = getattr(made, name)
        elif peer not in PEERS:
            bodies[peer] = getattr(FfnPasses(settings, peer), name)
    code = "import sys; from floodtide.bench.passes import memory; memory(*sys.argv[1:])"
    words = (json.dumps(config.to_dict(settings)), name, str(count))
    needed = json.loads(output_of("measuring the memory failed", "-c", code, *words))
    title = ours.prefix + name
    for row in compared(
        title,
        bodies,
        kernels | {"shape": str(ours), "threads": count},
        flops=ours.flops[name],
        examples={ours.rate: ours.batch},
        seconds=seconds,
    ):
        yield row | needed if row["name"] == title else row


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
    found = {"peak_memory_mib": peak / 2**20, "step_memory_mib": (peak - before) / 2**20}
    print(json.dumps(found))
