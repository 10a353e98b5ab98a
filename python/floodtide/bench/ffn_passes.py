# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the training step and the forward pass of a flood-filling network.

They are compared with the peak multiply-add rate and, on request, with PyTorch or another convolution kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

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


def _passes(network: FfnShape, kernel: str = "") -> _core.bench.NetworkPasses:
    return _core.bench.NetworkPasses(
        network.depth,
        network.fov,
        network.features,
        network.batch,
        network.compute,
        network.parallel,
        kernel,
    )


def memory(name: str, network: dict[str, Any], threads: int) -> dict[str, float]:
    """Return what two passes called `name` need; see `memory_mib`."""

    def make() -> Callable[[], Any]:
        _core.set_num_threads(threads)
        passes = _passes(FfnShape(**network))
        if name == "forward":
            passes.use_fastest_forward()
        run: Callable[[], Any] = getattr(passes, name)
        return run

    return memory_mib(make)


def _rows(name: str, network: FfnShape, count: int, seconds: float, against: str) -> Iterator[Row]:
    ours = _passes(network)
    kernels = ours.kernel_names()
    if name == "forward" and ours.use_fastest_forward() == "fft":
        kernels = "fft; conv0_a: " + kernels.partition("conv0_a: ")[2].partition(";")[0]
    run: Callable[[], Any] = getattr(ours, name)
    flops: float = getattr(ours, f"{name}_flops")()
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
        bodies[against] = getattr(_passes(network, against), name)
    conditions = {"kernel": kernels, "shape": str(network), "threads": count}
    for row in compared(
        name,
        bodies,
        conditions,
        flops=flops,
        examples=network.batch,
        rate="fovs_per_s",
        seconds=seconds,
    ):
        yield row | needed if row["name"] == name else row
