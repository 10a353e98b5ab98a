# SPDX-License-Identifier: Apache-2.0
"""Write a page and a picture about the speed of a machine, from the rows of `floodtide bench all --json`.

Usage: floodtide bench all --json > rows.jsonl && python docs/performance/machine_page.py rows.jsonl
Run it on the machine that was measured: the page names its processor, memory and versions. Page (.md), picture (.svg)
and rows (.jsonl) have the name of the processor and lie beside this script. Left in the picture: the roofline of one
thread. The line is a limit: the peak rate of multiply-adds. Points are the passes of a convolution, counted as direct
convolution. On the right: the median time of the fastest other program divided by ours.
The table has the convolutions and networks.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from floodtide.base import style
from floodtide.base.notes import count_of
from floodtide.bench.everything import BENCHMARKS
from floodtide.bench.rows import PEERS, Row
from floodtide.doctor.host import about

HERE = Path(__file__).parent
HEADER = """\
| what | median time in ms (10 % to 90 %) | share of peak | fastest other program's time / ours | memory in MiB |
|---|---|---|---|---|"""
NOTE = "[How to read this table](../performance.md#pages-of-machines)"
# Bytes of memory that a pass of the measured convolution must move: two arrays of 33³ x 32 floats, and the weights.
CONV_BYTES = 4 * (2 * 33**3 * 32 + 27 * 32 * 32)
FLOPS_PER_BYTE = (0.1, 1000.0)


def title(processor: str, cpuinfo: str) -> str:
    """The name of the processor. Virtual machines hide the model's name, so family and model numbers follow."""
    names = {"family": "cpu family", "model": "model"}
    found = {k: re.search(rf"^{v}\s*: (\d+)$", cpuinfo, re.M) for k, v in names.items()}
    numbers = ", ".join(f"{name} {match[1]}" for name, match in found.items() if match)
    return f"{processor} ({numbers})" if numbers else processor


def conditions(rows: Sequence[Row]) -> str:
    """One line about machine, commit and versions."""
    machine = about()
    command = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=12", "--dirty=+"]
    commit = subprocess.run([*command, "--exclude=*"], check=True, capture_output=True, text=True)
    peers = [
        name
        for name in ("torch", "onnxruntime", "openvino", "numpy")
        if importlib.util.find_spec(name)
    ]
    versions = {"floodtide": rows[0]["version"], "python": platform.python_version()}
    versions["compiler"] = str(machine["build"]["compiler"])
    versions |= {name: importlib.metadata.version(name) for name in peers}
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB of memory"
    parts = [count_of(machine["cores"], "core"), memory, machine["isa"]]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{', '.join(parts)}, commit {commit.stdout.strip()}; {named}; {rows[0]['date']}."


def label(row: Row) -> str:
    """What a row measures."""
    command, _, peers = row["benchmark"].partition(" --against ")
    bfloat16 = peers == "torch-bf16"
    what = {b.command: b.what for b in BENCHMARKS if (b.peers == ("torch-bf16",)) == bfloat16}
    _, space, part = row["name"].partition(" ")
    return what[command] + (f": {part.replace('_', '-')}" if space else "")


def is_ours(row: Row) -> bool:
    """True if the row is not that of another program."""
    return not str(row.get("kernel", "")).startswith(tuple(PEERS))


KEYS = ("median_s", "p10_s", "p90_s")


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}" if seconds >= 1 else f"{seconds * 1e3:.3g}"


def line(ours: Sequence[Row], rows: Sequence[Row]) -> str:
    """A row of the table: our rows of one measurement, one for each number of threads."""
    times, ratios = [], []
    for row in ours:
        others = [
            other
            for other in rows
            if (other["benchmark"], other["threads"]) == (row["benchmark"], row["threads"])
            and other["name"].startswith(f"{row['name']} ")
            and not is_ours(other)
        ]
        fastest = min(others, key=lambda other: float(other["median_s"]), default=None)
        median, *ends = (milliseconds(row[key]) for key in KEYS if key in row)
        times.append(f"{median} ({'-'.join(ends)})" if ends else median)
        if fastest is not None:
            ratios.append(f"{row['speedup']:.2f} ({fastest['kernel']})")
    memory = [f"{row['step_memory_mib']:.0f}" for row in ours if "step_memory_mib" in row]
    shares = [f"{row['ratio']:.2f}" for row in ours]
    cells = [label(ours[0]), *map(", ".join, (times, shares, ratios, memory))]
    return "| " + " | ".join(cells) + " |"


def draw(rows: Sequence[Row]) -> bytes:
    """The picture as SVG."""
    with style.figure(11.0, 4.4) as drawn:
        left, right = drawn.subplots(1, 2)
        roofline(left, [row for row in rows if row["threads"] == 1])
        bars(right, [row for row in rows if "speedup" in row])
        return style.rendered(drawn, "svg")


def roofline(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw the limit and the convolutions of one thread."""
    peak = max(row["peak_gflops"] for row in rows)
    axes.axhline(peak, color="black", lw=1.2)
    axes.annotate(f"multiply-adds: {peak:.0f} GFLOP/s", (0.11, peak * 1.1), fontsize=8)
    for index, row in enumerate(row for row in rows if row["name"].startswith("conv ")):
        at = row["gflops"] * row["median_s"] * 1e9 / CONV_BYTES
        look: Any = {"color": style.SERIES[3], "ls": "", "marker": style.MARKERS[index]}
        name = f"convolution, {row['name'].partition(' ')[2].replace('_', '-')}"
        axes.plot([at], [row["gflops"]], **look, label=name)
    axes.set(xscale="log", yscale="log", xlim=FLOPS_PER_BYTE, ylabel="GFLOP/s")
    axes.set_ylim(peak / 2, 5 * peak)
    axes.set_xlabel("floating-point operations of direct convolution per byte")
    axes.set_title("Roofline, one thread")
    axes.legend(loc="upper left")


def bars(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw a bar for each comparison."""
    axes.set_title("Fastest other program's time / ours")
    if not rows:
        axes.text(0.5, 0.5, "no other program was measured", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    places = range(len(rows))[::-1]
    drawn = axes.barh(places, [row["speedup"] for row in rows], color=style.SERIES[0], height=0.7)
    axes.bar_label(drawn, fmt="%.2f", padding=3)
    axes.axvline(1.0, color="black", lw=1.0)
    axes.set_yticks(places, [f"{label(row)}, {count_of(row['threads'], 'thread')}" for row in rows])
    axes.set_xlim(0, 1.15 * max(row["speedup"] for row in rows))
    axes.set_xlabel("above 1: floodtide is faster")
    axes.grid(visible=False, axis="y")


def main(file: Path, out: Path = HERE) -> None:
    """Write page, picture and rows."""
    content = file.read_text("utf-8")
    rows = [json.loads(text) for text in content.splitlines()]
    cpuinfo = Path("/proc/cpuinfo")
    name = title(rows[0]["processor"], cpuinfo.read_text("utf-8") if cpuinfo.exists() else "")
    base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if is_ours(row):
            groups.setdefault((row["benchmark"], row["name"]), []).append(row)
    table = [line(ours, rows) for ours in groups.values()]
    picture = (
        f"![Roofline of a convolution, and the passes compared with other programs]({base}.svg)"
    )
    counts = " and ".join(str(n) for n in sorted({row["threads"] for row in rows}))
    how = f"Measured with `floodtide bench all`, with {counts} threads. {conditions(rows)}"
    parts = [f"# {name}", how, picture]
    page = "\n\n".join([*parts, "\n".join([HEADER, *table]), NOTE])
    (out / f"{base}.md").write_text(page + "\n", "utf-8")
    (out / f"{base}.svg").write_bytes(draw(rows))
    (out / f"{base}.jsonl").write_text(content, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
