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
from floodtide.bench import machine, roofline
from floodtide.bench.everything import Benchmark, Result
from floodtide.bench.rows import Row


def lines(benchmark: Benchmark, rows: Sequence[Row]) -> list[str]:
    """Return the rows of the table that show a benchmark. PyTorch's own rows are in the ratio of ours."""
    return [_line(benchmark, row) for row in rows if " torch" not in row["name"]]


HEADER = (
    "| what | command | threads | time in ms (10 % to 90 %) | rate | share of peak | PyTorch's time / ours"
    " | memory in MiB |",
    "|---|---|---|---|---|---|---|---|",
)


def name(found: Mapping[str, Any]) -> str:
    """Return the name of the files about a machine, without suffix."""
    return machine.file_name(found)


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
    base = name(found)
    replace_bytes(out / f"{base}.svg", roofline.draw(results, "svg"))
    command = f"floodtide bench all --out {shlex.quote(str(out))}"
    replace_text(out / f"{base}.md", page(found, results, picture=f"{base}.svg", command=command))
    replace_text(out / f"{base}.json", json.dumps(document(found, results), indent=1) + "\n")


def page(
    found: Mapping[str, Any],
    results: Sequence[Result],
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
            f"# {machine.title(found)}",
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
            " the growth of the process during two steps. PyTorch runs in"
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
    times = f"{row['speedup']:.2f}" if "speedup" in row else ""
    memory = row.get("step_memory_mib")
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
