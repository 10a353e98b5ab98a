# SPDX-License-Identifier: Apache-2.0
"""The table and the page about all benchmarks of a machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide.base.counts import count_of
from floodtide.base.files import make_folder, replace_bytes, replace_text
from floodtide.base.templates import render
from floodtide.bench import machine, roofline
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


def write(out: Path, found: Mapping[str, Any], results: Sequence[Result]) -> None:
    """Write the page, its picture and all rows to a folder, which is created if it is missing.

    Raises:
        StorageError: If a file cannot be written.
    """
    make_folder(out)
    base = machine.file_name(found)
    page = render(
        "machine.txt",
        "bench/templates",
        title=machine.title(found),
        command=f"floodtide bench all --out {shlex.quote(str(out))}",
        conditions=conditions(found),
        picture=f"{base}.svg",
        table=[*HEADER, *(line for benchmark, rows in results for line in lines(benchmark, rows))],
    )
    replace_bytes(out / f"{base}.svg", roofline.draw(results, "svg"))
    replace_text(out / f"{base}.md", page)
    replace_text(out / f"{base}.json", json.dumps(document(found, results), indent=1) + "\n")


def conditions(found: Mapping[str, Any]) -> str:
    """Return one line about machine and versions."""
    parts = [
        count_of(found["cores"], "core"),
        f"{found['memory_bytes'] / 2**30:.0f} GiB of memory",
        found["isa"],
        f"commit {found.get('commit', 'unknown')}",
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
