# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the training step and the forward pass of a flood-filling network.

They are compared with the peak multiply-add rate and, on request, with PyTorch or another convolution kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.bench.rows import (
    TORCH,
    Row,
    compared,
    in_own_process,
    memory_mib,
    require_peer,
    threads,
)
from floodtide.bench.shapes import FfnShape, Timing

_START = 2.944439  # logit of 0.95


class Passes:
    """Passes of a flood-filling network on random numbers. Each example of the batch is a field of view.

    Args:
        network: The network and the batch.
        kernel: Name of the convolution kernel; "": the dispatch chooses one for each convolution.

    Attributes:
        gradients: Of the last pass.
        trained: Number of parameters.
        flops: Floating-point operations of a step, counted as direct convolution.
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
        self.flops = network.batch * self.core.step_flops(network.fov)

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

    def use_fastest_forward(self) -> str:
        """Compute forward passes in the faster way from now on, as segmentation does, and return it."""
        self._forward = self.core.fastest_forward()[0]
        return self._forward


def update(passes: Any, optimizer: _core.Optimizer) -> None:
    """Clip the gradients of passes at google/ffn's default, and update the parameters."""
    gradients = passes.gradients[: passes.trained]
    np.clip(gradients, -0.7, 0.7, out=gradients)
    with passes.core.changing():
        optimizer.step(passes.core.parameters()[: passes.trained], gradients, 1e-3)


def step(network: FfnShape, timing: Timing, against: str = "") -> Iterator[Row]:
    """Measure a training step (forward, backward, clipping and Adam), and yield rows.

    Rows have the fields of `floodtide.bench.rows` and `fovs_per_s`. Rows of floodtide also have
    `peak_memory_mib` (peak memory of a process that only makes two such passes) and `step_memory_mib`
    (the growth of that memory by the passes). With `against`, they have `speedup`: median time of the
    other implementation / median time of floodtide; for PyTorch, the better of two memory formats.
    `gflops` counts the operations of direct convolution.

    Args:
        network: The network and batch to measure.
        timing: One set of rows for each number of threads. At least 20 samples are taken, or 3 if all samples
            together take 2 s.
        against: "torch" for the same step in PyTorch; "torch-bf16" for PyTorch with autocast to
            bfloat16; the name of a convolution kernel for the same step with this kernel; or "".

    Raises:
        InvalidArgumentError: If an argument is out of range or `against` is unknown.
        UnsupportedError: If PyTorch is not installed but needed, or the kernel needs another
            processor or build.
    """
    yield from _benchmark("step", network, timing, against)


def forward(network: FfnShape, timing: Timing, against: str = "") -> Iterator[Row]:
    """Measure the forward pass, in the faster way, as in segmentation. Arguments, rows and errors as for `step`."""
    yield from _benchmark("forward", network, timing, against)


def _benchmark(name: str, network: FfnShape, timing: Timing, against: str) -> Iterator[Row]:
    require_peer(name, against, [kernel for kernel, _ in _core.bench.conv_kernels()])
    for count in timing.counts:
        with threads(count):
            yield from _rows(name, network, count, timing.seconds, against)


def memory(name: str, network: dict[str, Any], threads: int) -> dict[str, float]:
    """Return what two passes called `name` need; see `memory_mib`."""

    def make() -> Callable[[], Any]:
        _core.set_num_threads(threads)
        passes = Passes(FfnShape(**network))
        if name == "forward":
            passes.use_fastest_forward()
        run: Callable[[], Any] = getattr(passes, name)
        return run

    return memory_mib(make)


def _rows(name: str, network: FfnShape, count: int, seconds: float, against: str) -> Iterator[Row]:
    ours = Passes(network)
    kernels = ours.core.kernel_names()
    if name == "forward" and ours.use_fastest_forward() == "fft":
        kernels = "fft; conv0_a: " + kernels.partition("conv0_a: ")[2].partition(";")[0]
    run: Callable[[], Any] = getattr(ours, name)
    forward_flops = network.batch * ours.core.forward_flops(network.fov)
    needed = in_own_process(
        "floodtide.bench.ffn_passes:memory", name=name, network=asdict(network), threads=count
    )
    bodies = {"floodtide": run}
    if against in TORCH:
        from floodtide.bench.torch_ffn import LAYOUTS, TorchFfn

        for layout in LAYOUTS:
            passes = TorchFfn(network, against, count, layout)
            bodies[f"{against} {layout}"] = getattr(passes, name)
    elif against:
        bodies[against] = getattr(Passes(network, against), name)
    conditions = {"kernel": kernels, "shape": str(network), "threads": count}
    for row in compared(
        name,
        bodies,
        conditions,
        flops=ours.flops if name == "step" else forward_flops,
        examples={"fovs_per_s": network.batch},
        seconds=seconds,
    ):
        yield row | needed if row["name"] == name else row
