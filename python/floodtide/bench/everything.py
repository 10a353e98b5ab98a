# SPDX-License-Identifier: Apache-2.0
"""All benchmarks of computation in one run.

Each command runs in its own process, so that the memory and the threads of one do not disturb the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from floodtide.bench import kernels
from floodtide.bench.rows import Row, has_torch, output_of
from floodtide.bench.shapes import Timing


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: what it measures, and how.

    Attributes:
        command: A command of `floodtide bench`, with its options.
        what: What it measures, for tables.
        peer: The peer in PyTorch that it is compared with; "": none.
        function: What only `floodtide bench all` measures; None: the command.
    """

    command: str
    what: str
    peer: str = ""
    function: Callable[[Timing], Iterator[Row]] | None = None

    def __str__(self) -> str:
        return f"{self.command} --against {self.peer}" if self.peer else self.command

    def rows(self, timing: Timing, with_peer: bool) -> list[Row]:
        """Run the benchmark and return its rows.

        Raises:
            InternalError: If it fails. The message has the last line of its errors.
        """
        if self.function is not None:
            return list(self.function(timing))
        threads = ",".join(map(str, timing.counts))
        words = [*self.command.split(), "--threads", threads, "--seconds", f"{timing.seconds:g}"]
        words += ["--against", self.peer] if with_peer and self.peer else []
        failure = f"floodtide bench {' '.join(words)} failed"
        printed = output_of(failure, "-m", "floodtide", "bench", *words, "--json")
        return [json.loads(line) for line in printed.splitlines()]


BENCHMARKS = (
    Benchmark("all", "multiply-adds", function=kernels.peak),
    Benchmark("all", "reading", function=kernels.bandwidth),
    Benchmark("conv", "convolution 33³, 32 to 32 channels"),
    Benchmark("step", "FFN training step, depth 9, 33³", "torch"),
    Benchmark("step --set training.walkers=2", "FFN training step, depth 9, 33³, batch 2", "torch"),
    Benchmark("step", "FFN training step, depth 9, 33³, against bfloat16", "torch-bf16"),
    Benchmark("forward", "FFN forward pass, depth 12, 33³", "torch"),
    Benchmark("unet", "U-Net, 240², batch 8", "torch"),
)


Result = tuple[Benchmark, Sequence[Row]]


def measure(timing: Timing) -> Iterator[Result]:
    """Run all benchmarks one after another, and yield each with its rows.

    Raises:
        InternalError: If a benchmark fails.
    """
    peers = has_torch()
    # Without PyTorch, a step against bfloat16 would be the same step once more.
    chosen = [one for one in BENCHMARKS if peers or one.peer != "torch-bf16"]
    for benchmark in chosen:
        yield benchmark, benchmark.rows(timing, peers)
