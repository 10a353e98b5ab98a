# SPDX-License-Identifier: Apache-2.0
"""All benchmarks of computation in one run: their rows, and a page about them.

Each benchmark is a command of its own process, so that the memory and the threads of one do not disturb the next.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from floodtide.base.counts import count_of
from floodtide.bench import machine
from floodtide.bench.rows import Row
from floodtide.errors import InternalError


@dataclass(frozen=True)
class Benchmark:
    """A command of `floodtide bench`, what it measures, and the peer in PyTorch that it is compared with."""

    command: str
    what: str
    peer: str = ""

    def __str__(self) -> str:
        return f"{self.command} --against {self.peer}" if self.peer else self.command

    def words(self, seconds: float, thread_counts: Sequence[int], with_peer: bool) -> list[str]:
        """Return the words of the command after `floodtide bench`."""
        threads = ",".join(map(str, thread_counts))
        words = [*self.command.split(), "--threads", threads, "--seconds", f"{seconds:g}"]
        return [*words, "--against", self.peer] if with_peer and self.peer else words


BENCHMARKS = (
    Benchmark("peak", "multiply-adds"),
    Benchmark("bandwidth", "reading"),
    Benchmark("conv", "convolution 33³, 32 to 32 channels"),
    Benchmark("step", "FFN training step, depth 9, 33³", "torch"),
    Benchmark("step --batch 2", "FFN training step, depth 9, 33³, batch 2", "torch"),
    Benchmark("step", "FFN training step, depth 9, 33³, against bfloat16", "torch-bf16"),
    Benchmark("forward", "FFN forward pass, depth 12, 33³", "torch"),
    Benchmark("unet", "U-Net, 240², batch 8", "torch"),
    Benchmark("optimizer --name adam", "optimizer Adam, 472,353 parameters"),
)


def chosen(*, with_peers: bool) -> tuple[Benchmark, ...]:
    """Return the benchmarks to run. Without PyTorch, a step against bfloat16 would be the same step once more."""
    return tuple(b for b in BENCHMARKS if with_peers or b.peer != "torch-bf16")


def measure(
    benchmarks: Sequence[Benchmark],
    thread_counts: Sequence[int],
    seconds: float,
    *,
    with_peers: bool,
) -> Iterator[tuple[Benchmark, list[Row]]]:
    """Run benchmarks one after another, and yield each with its rows.

    Args:
        benchmarks: What `chosen` returns, or a part of it.
        thread_counts: Numbers of threads; each benchmark is run with each number.
        seconds: Minimum time to measure each row.
        with_peers: Compare with PyTorch.

    Raises:
        InternalError: If a benchmark fails. The message has the last line of its errors.
    """
    for benchmark in benchmarks:
        words = benchmark.words(seconds, thread_counts, with_peers)
        command = [sys.executable, "-m", "floodtide", "bench", *words, "--json"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
            raise InternalError(f"floodtide bench {' '.join(words)} failed: {said[0]}")
        yield benchmark, [json.loads(line) for line in done.stdout.splitlines()]


def lines(benchmark: Benchmark, rows: Sequence[Row]) -> list[str]:
    """Return the rows of the table that show a benchmark. PyTorch's own rows are in the ratio of ours."""
    return [_line(benchmark, row) for row in rows if " torch" not in row["name"]]


HEADER = (
    "| what | command | threads | time in ms (10 % to 90 %) | rate | share of peak | PyTorch's time / ours"
    " | memory in MiB |",
    "|---|---|---|---|---|---|---|---|",
)


def page(
    found: Mapping[str, Any],
    results: Sequence[tuple[Benchmark, Sequence[Row]]],
    *,
    picture: str,
    command: str,
) -> str:
    """Return a Markdown page about a machine.

    Args:
        found: The facts of `machine.facts`.
        results: What `measure` has yielded.
        picture: Name of the picture's file.
        command: The command that measured, for the reader.
    """
    table = [line for benchmark, rows in results for line in lines(benchmark, rows)]
    return "\n".join(
        [
            f"# {machine.title(dict(found))}",
            "",
            f"Measured with `{command}`. {conditions(found)}",
            "",
            f"![Roofline of a convolution, and the passes compared with PyTorch]({picture})",
            "",
            *HEADER,
            *table,
            "",
            "Times are medians. *Share of peak* is the rate of a direct convolution that takes the measured time,"
            " divided by the peak rate of multiply-adds in the same run: Winograd's convolutions exceed 1. Memory is"
            " the growth of the process during two steps (U-Net: the peak memory of the process). PyTorch runs in"
            " turn with floodtide, in the better of two memory formats.",
            "",
        ]
    )


def conditions(found: Mapping[str, Any]) -> str:
    """Return one line about machine and versions."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    parts = [count_of(found["cores"], "core"), f"{found['memory_bytes'] / 2**30:.0f} GiB of memory"]
    parts += [f"{level} {size}" for level, size in found.get("caches", {}).items()]
    parts += [" ".join(found["instructions"])] if "instructions" in found else []
    parts.append(f"commit {found['commit']}" if "commit" in found else "commit unknown")
    return f"{', '.join(parts)}; {versions}; {found['date']}."


def _line(benchmark: Benchmark, row: Row) -> str:
    spread = f" ({row['p10_s'] * 1e3:.3g} to {row['p90_s'] * 1e3:.3g})" if "p10_s" in row else ""
    if "gb_per_s" in row:
        rate = f"{row['gb_per_s']:.0f} GB/s"
    elif "gflops" in row:
        rate = f"{row['gflops']:.0f} GFLOP/s"
    else:
        rate = ""
    share = f"{row['ratio']:.2f}" if "gflops" in row and row["name"] != "peak" else ""
    if row["name"].startswith("optimizer"):
        rate = f"{row['ratio']:.2f} of reading and writing once"
    times = f"{row['speedup']:.2f}" if "speedup" in row else ""
    memory = row.get("step_memory_mib", row.get("peak_memory_mib"))
    cells = [
        _what(benchmark, row),
        f"`floodtide bench {benchmark}`",
        str(row["threads"]),
        f"{row['median_s'] * 1e3:.3g}{spread}",
        rate,
        share,
        times,
        "" if memory is None else f"{memory:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def _what(benchmark: Benchmark, row: Row) -> str:
    if row["name"] == "peak":
        return f"{benchmark.what}, {row['level']}"
    if row["name"] == "bandwidth":
        return f"{benchmark.what} {row['shape']}"
    if row["name"].startswith(("conv ", "unet ")):
        return f"{benchmark.what}: {row['name'].partition(' ')[2].replace('_', '-')}"
    return benchmark.what
