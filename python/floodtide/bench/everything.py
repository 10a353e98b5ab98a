# SPDX-License-Identifier: Apache-2.0
"""All benchmarks of computation in one run.

Each command runs in its own process, so that the memory and the threads of one do not disturb the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from floodtide.bench import kernels
from floodtide.bench.rows import ONNX, PEERS, Row, has, output_of
from floodtide.bench.shapes import Timing


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: what it measures, and how.

    Attributes:
        command: A command of `floodtide bench`, with its options.
        what: What it measures, for tables.
        peers: What it is compared with, as `--against` names it; "": nothing.
        function: What only `floodtide bench all` measures; None: the command.
    """

    command: str
    what: str
    peers: str = ""
    function: Callable[[Timing], Iterator[Row]] | None = None

    def __str__(self) -> str:
        return f"{self.command} --against {self.peers}" if self.peers else self.command

    def rows(self, timing: Timing) -> list[Row]:
        """Run the benchmark, compared with the peers that are installed, and return its rows."""
        if self.function is not None:
            return list(self.function(timing))
        threads = ",".join(map(str, timing.counts))
        words = [*self.command.split(), "--threads", threads, "--seconds", f"{timing.seconds:g}"]
        installed = ",".join(peer for peer in self.peers.split(",") if peer and has(peer))
        words += ["--against", installed] if installed else []
        failure = f"floodtide bench {' '.join(words)} failed"
        printed = output_of(failure, "-m", "floodtide", "bench", *words, "--json")
        return [json.loads(line) for line in printed.splitlines()]


_TRAINING = "torch,torch-compile"
_FORWARD = f"{_TRAINING},{','.join(ONNX)}"

BENCHMARKS = (
    Benchmark("all", "multiply-adds", function=kernels.peak),
    Benchmark("all", "reading", function=kernels.bandwidth),
    Benchmark("conv", "convolution 33³, 32 to 32 channels"),
    Benchmark("step", "FFN training step, depth 9, 33³", _TRAINING),
    Benchmark(
        "step --set training.walkers=2", "FFN training step, depth 9, 33³, batch 2", _TRAINING
    ),
    Benchmark("step", "FFN training step, depth 9, 33³, against bfloat16", "torch-bf16"),
    Benchmark("forward", "FFN forward pass, depth 12, 33³", _FORWARD),
    Benchmark("unet", "U-Net, 240², batch 8", _FORWARD),
)


Result = tuple[Benchmark, Sequence[Row]]


def measure(timing: Timing) -> Iterator[Result]:
    """Run all benchmarks one after another, and yield each with its rows. Raise InternalError if a benchmark fails."""
    for benchmark in BENCHMARKS:
        # Without PyTorch, a step against bfloat16 would be the same step once more.
        if benchmark.peers != "torch-bf16" or has("torch"):
            yield benchmark, benchmark.rows(timing)


def missing() -> list[str]:
    """Return the peers that are not installed."""
    return [peer for peer in PEERS if not has(peer)]
