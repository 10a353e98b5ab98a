# SPDX-License-Identifier: Apache-2.0
"""All benchmarks of computation in one run.

Each command runs in its own process, so that the memory and the threads of one do not disturb the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from floodtide import _core
from floodtide.base import notes
from floodtide.bench.rows import ONNX, PEERS, Row, missing, output_of
from floodtide.bench.shapes import Timing


class Benchmark(NamedTuple):
    """A command of `floodtide bench` with its options, what it measures, and the peers to compare with."""

    command: str
    what: str
    peers: tuple[str, ...] = ()


_TRAINING = ("torch", "torch-compile")
_BFLOAT16 = ("torch-bf16",)

BENCHMARKS = (
    Benchmark("conv", "convolution 33³, 32 to 32 channels"),
    Benchmark("step", "FFN training step, depth 9, 33³", _TRAINING),
    Benchmark(
        "step --set training.walkers=2", "FFN training step, depth 9, 33³, batch 2", _TRAINING
    ),
    Benchmark("step", "FFN training step, depth 9, 33³, against bfloat16", _BFLOAT16),
    Benchmark("forward", "FFN forward pass, depth 12, 33³", (*_TRAINING, *ONNX)),
    Benchmark("unet", "U-Net, 240², batch 8", ("torch", *ONNX)),
)


def measure(timing: Timing) -> Iterator[Row]:
    """Run all benchmarks one after another, and yield their rows; `benchmark` is the command.

    Peers that are not installed are left out. Raise InternalError if a benchmark fails.
    """
    absent = [peer for peer in PEERS if missing(peer)]
    if absent:
        notes.line(f"not installed, so not compared with: {', '.join(absent)}")
    if "torch-compile" not in absent:
        notes.line("U-Nets are not compared with torch-compile, which compiles for a minute")
    for command, _, peers in BENCHMARKS:
        installed = [peer for peer in peers if peer not in absent]
        if peers == _BFLOAT16:
            if not installed:
                continue  # it would be the same step once more
            if _core.active_isa() != "avx512":
                notes.line("not compared with torch-bf16: without AVX-512, a pass takes 40 s")
                continue
        threads = ",".join(map(str, timing.counts))
        words = [*command.split(), "--threads", threads, "--seconds", f"{timing.seconds:g}"]
        words += ["--against", ",".join(installed)] if installed else []
        failure = f"floodtide bench {' '.join(words)} failed"
        printed = output_of(failure, "-m", "floodtide", "bench", *words, "--json")
        name = f"{command} --against {','.join(peers)}" if peers else command
        yield from ({"benchmark": name, **json.loads(line)} for line in printed.splitlines())
