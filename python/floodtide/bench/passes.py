# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the training step and the forward pass of a flood-filling network and of a U-Net.

They are compared with the peak multiply-add rate and, on request, with PyTorch or another convolution kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.bench.rows import TORCH, Row, compared, in_own_process, require_peer, threads
from floodtide.bench.shapes import CLASSES, FfnShape, NetworkShape, Timing, UNetShape


@dataclass(frozen=True)
class Pass:
    """A pass of a network: how to run it, its floating-point operations, and the fields of a row about its kernels."""

    run: Callable[[], Any]
    flops: float
    kernels: dict[str, str]


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
    ours = _pass(network, name)
    bodies = {"floodtide": ours.run}
    if against in TORCH:
        from floodtide.bench import torch_peers

        for layout, peer in torch_peers.of(network, against, count).items():
            bodies[f"{against} {layout}"] = getattr(peer, name)
    elif isinstance(network, FfnShape) and against:
        bodies[against] = _of_ffn(network, name, against).run
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
        ours.kernels | {"shape": str(network), "threads": count},
        flops=ours.flops,
        examples=network.batch,
        rate=network.rate,
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
    made = _pass({"FfnShape": FfnShape, "UNetShape": UNetShape}[kind](**network), name)
    made.run()
    made.run()
    peak = _core.peak_resident_bytes()
    return {"peak_memory_mib": peak / 2**20, "step_memory_mib": (peak - before) / 2**20}


def _pass(network: NetworkShape, name: str) -> Pass:
    return _of_ffn(network, name) if isinstance(network, FfnShape) else _of_unet(network, name)


def _of_ffn(network: FfnShape, name: str, kernel: str = "") -> Pass:
    passes = _core.bench.NetworkPasses(**asdict(network), kernel=kernel)
    kernels = passes.kernel_names()
    if name == "forward" and not kernel and passes.use_fastest_forward() == "fft":
        kernels = "fft; conv0_a: " + kernels.partition("conv0_a: ")[2].partition(";")[0]
    return Pass(getattr(passes, name), getattr(passes, f"{name}_flops")(), {"kernel": kernels})


def _of_unet(network: UNetShape, name: str) -> Pass:
    """Return a pass of floodtide's U-Net.

    A step moves the statistics, as in training. The next step therefore prepares all weights again, as after an update.
    """
    core = nn.UNet2D(
        nn.UNetOptions(depth=network.depth, features=network.features),
        classes=CLASSES,
        compute=network.compute,
    ).core
    random = np.random.default_rng(1)
    shape = (network.batch, 1, *network.size)
    images = random.standard_normal((*shape, 1), np.float32)
    labels = (random.random(shape) < 0.3).astype(np.uint8)
    gradients = np.zeros(core.parameters().size, np.float32)
    loss = nn.SegmentationLoss().core()

    def step() -> None:
        gradients[:] = 0
        core.loss_and_gradients(
            images, labels, None, None, loss, 1, [], gradients, 1 / network.batch, None
        )
        core.move_statistics(gradients, 1)

    step()  # chooses kernels
    names = core.kernel_names()
    counts = Counter(layer.split(": ")[1] for layer in names.split("; "))
    counted = ", ".join(f"{count} {kernel}" for kernel, count in counts.most_common())
    flops = getattr(core, f"{name}_flops")((1, *network.size))
    run = step if name == "step" else lambda: core.forward(images)
    return Pass(run, network.batch * flops, {"kernel": counted, "kernels": names})
