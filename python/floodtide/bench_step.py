# SPDX-License-Identifier: Apache-2.0
"""A training step of one rank, timed beside the multiply-add peak and, on request, PyTorch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from floodtide import _core
from floodtide.bench import Row, stamped, threads
from floodtide.errors import InvalidArgumentError

LEAST_SAMPLES = 20
MIB = 2**20


def step(
    *,
    depth: int = 9,
    fov: tuple[int, int, int] = (33, 33, 33),
    features: int = 32,
    batch: int = 1,
    thread_counts: Sequence[int] = (1,),
    seconds: float = 1.0,
    against: str = "",
    compute: str = "fp32",
) -> Iterator[Row]:
    """Time forward, backward, clipping and Adam, after checking the gradient.

    Rows have the fields of `floodtide.bench` and `fovs_per_s`; ours also `peak_memory_mib` (of the
    whole process before PyTorch is imported), `step_memory_mib` (what of it came after the start of
    the benchmark) and, beside PyTorch, `speedup` (its better memory format's median over ours).
    `gflops` count direct convolution.

    Args:
        depth: Modules of the network.
        fov: Field of view (z, y, x) in voxels.
        features: Channels.
        batch: Examples of a step.
        thread_counts: Numbers of threads, one set of rows for each.
        seconds: Least time to spend on each step; at least 20 samples are taken.
        against: "torch" for the same step in PyTorch, or empty.
        compute: As for `floodtide.nn.FFN`.

    Raises:
        InvalidArgumentError: If an argument is out of range or `against` is unknown.
        UnsupportedError: If PyTorch is asked for and not installed.
    """
    if against not in ("", "torch"):
        raise InvalidArgumentError(f"step: --against is '{against}', expected 'torch'")
    if against:
        import importlib.util

        from floodtide.errors import UnsupportedError

        if importlib.util.find_spec("torch") is None:
            raise UnsupportedError(
                "step: --against torch needs PyTorch, which is not installed (pip install torch)"
            )
    before = _core.resident_bytes()
    for count in thread_counts:
        with threads(count):
            yield from _rows(depth, fov, features, batch, compute, count, seconds, against, before)


def _rows(
    depth: int,
    fov: tuple[int, int, int],
    features: int,
    batch: int,
    compute: str,
    count: int,
    seconds: float,
    against: str,
    before: int,
) -> Iterator[Row]:
    ours = _core.bench.TrainingStep(depth, fov, features, batch, compute)
    ours.run()
    ours.run()
    memory = {
        "peak_memory_mib": _core.peak_resident_bytes() / MIB,
        "step_memory_mib": (_core.peak_resident_bytes() - before) / MIB,
    }
    bodies = {"floodtide": ours.run}
    if against:
        from floodtide._torch_step import LAYOUTS, TorchStep

        for layout in LAYOUTS:
            bodies[f"torch {layout}"] = TorchStep(
                depth=depth,
                features=features,
                fov=fov,
                batch=batch,
                threads=count,
                layout=layout,
            ).run
    samples: dict[str, list[float]] = {name: [] for name in (*bodies, "peak")}
    for body in bodies.values():
        body()
    while len(samples["peak"]) < LEAST_SAMPLES or sum(samples["floodtide"]) < seconds:
        samples["peak"].append(ours.sample_peak())
        for name, body in bodies.items():
            start = time.perf_counter()
            body()
            samples[name].append(time.perf_counter() - start)
    shape = f"depth {depth}, fov {fov[0]}x{fov[1]}x{fov[2]}, {features} features, batch {batch}"
    medians = {name: float(np.median(samples[name])) for name in bodies}
    others = [median for name, median in medians.items() if name != "floodtide"]
    for name in bodies:
        own = name == "floodtide"
        row: Row = {
            "name": "step" if own else f"step {name}",
            "kernel": ours.kernel_names() if own else name,
            "level": _core.active_isa(),
            "shape": shape,
            "threads": count,
            "ranks": 1,
            "samples": len(samples[name]),
            "median_s": medians[name],
            "p10_s": float(np.quantile(samples[name], 0.1)),
            "p90_s": float(np.quantile(samples[name], 0.9)),
            "min_s": min(samples[name]),
            "gflops": ours.flops() / medians[name] * 1e-9,
            "peak_gflops": ours.peak_flops() / float(np.median(samples["peak"])) * 1e-9,
            "fovs_per_s": batch / medians[name],
        }
        row["ratio"] = row["gflops"] / row["peak_gflops"]
        row["best_ratio"] = (ours.flops() / row["min_s"]) / (
            ours.peak_flops() / min(samples["peak"])
        )
        if own:
            row |= memory
            if others:
                row["speedup"] = min(others) / medians[name]
                row["best_speedup"] = min(min(samples[n]) for n in bodies if n != name) / min(
                    samples[name]
                )
        yield stamped(row)
