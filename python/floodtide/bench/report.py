# SPDX-License-Identifier: Apache-2.0
"""The table of all benchmarks of a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from floodtide.base.counts import count_of
from floodtide.bench.everything import Benchmark, Result
from floodtide.bench.rows import Row

HEADER = (
    "| what | command | threads | time in ms (10 % to 90 %) | rate | share of peak | PyTorch's time / ours"
    " | memory in MiB |",
    "|---|---|---|---|---|---|---|---|",
)


def lines(benchmark: Benchmark, rows: Sequence[Row]) -> list[str]:
    """Return the rows of the table that show a benchmark. PyTorch's own rows are in the ratio of ours."""
    return [_line(benchmark, row) for row in rows if " torch" not in row["name"]]


def document(found: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """Return the facts of a machine and all rows, for JSON."""
    rows = [row | {"benchmark": str(benchmark)} for benchmark, rows in results for row in rows]
    return {**found, "rows": rows}


def conditions(found: Mapping[str, Any]) -> str:
    """Return one line about machine and versions."""
    parts = [
        count_of(found["cores"], "core"),
        f"{found['memory_bytes'] / 2**30:.0f} GiB of memory",
        found["isa"],
    ]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"{', '.join(parts)}; {versions}; {found['date']}."


def _line(benchmark: Benchmark, row: Row) -> str:
    spread = f" ({row['p10_s'] * 1e3:.3g} to {row['p90_s'] * 1e3:.3g})" if "p10_s" in row else ""
    flops = "gflops" in row
    cells = [
        benchmark.label(row),
        f"`floodtide bench {benchmark}`",
        str(row["threads"]),
        f"{row['median_s'] * 1e3:.3g}{spread}",
        f"{row['gflops']:.0f} GFLOP/s" if flops else f"{row['gb_per_s']:.0f} GB/s",
        f"{row['ratio']:.2f}" if flops and row["name"] != "peak" else "",
        f"{row['speedup']:.2f}" if "speedup" in row else "",
        f"{row['step_memory_mib']:.0f}" if "step_memory_mib" in row else "",
    ]
    return "| " + " | ".join(cells) + " |"
