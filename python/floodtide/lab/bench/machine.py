# SPDX-License-Identifier: Apache-2.0
"""The page about the speed of a machine: all benchmarks of computation in a table, and a picture.

Left: the roofline of a convolution. Right: bars of the passes compared with PyTorch.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floodtide.base import style
from floodtide.base.files import make_folder, replace_bytes, replace_text
from floodtide.base.notes import count_of
from floodtide.base.templates import render
from floodtide.bench.everything import Benchmark, Result
from floodtide.bench.rows import Row, now
from floodtide.doctor.host import about

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PEERS = ("torch", "numpy")
HEADER = (
    "| what | command | threads | time in ms (10 % to 90 %) | rate | share of peak | PyTorch's time / ours"
    " | memory in MiB |",
    "|---|---|---|---|---|---|---|---|",
)
_CPUINFO = Path("/proc/cpuinfo")
# Bytes of memory that a pass of the measured convolution must move: two arrays of 33³ x 32 floats, and the weights.
_CONV_BYTES = 4 * (2 * 33**3 * 32 + 27 * 32 * 32)
_FLOPS_PER_BYTE = (0.1, 1000.0)


def facts() -> dict[str, Any]:
    """Return the processor, its instruction set, cores, memory, versions, date (UTC), and the commit of floodtide.

    What the system does not tell is missing: family and model outside of x86, the commit outside of a Git checkout.
    """
    installed = [name for name in PEERS if importlib.util.find_spec(name) is not None]
    build = about()
    found: dict[str, Any] = {
        "processor": build["processor"],
        "isa": build["isa"],
        "cores": build["cores"],
        "memory_bytes": build["memory_bytes"],
        "date": now(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "floodtide": build["version"],
            "python": platform.python_version(),
            "compiler": str(build["build"]["compiler"]),
            **{name: importlib.metadata.version(name) for name in installed},
        },
    }
    cpuinfo = _CPUINFO.read_text("utf-8") if _CPUINFO.exists() else ""
    for name, key in (("family", "cpu family"), ("model", "model")):
        if match := re.search(rf"^{key}\s*: (\d+)$", cpuinfo, re.MULTILINE):
            found[name] = int(match[1])
    if commit := _commit():
        found["commit"] = commit
    return found


def label(benchmark: Benchmark, row: Row) -> str:
    """Return what a row of a benchmark measures."""
    if row["name"] == "peak":
        return f"{benchmark.what}, {row['level']}"
    if row["name"] == "bandwidth":
        return f"{benchmark.what} {row['shape']}"
    _, space, part = row["name"].partition(" ")
    return f"{benchmark.what}: {part.replace('_', '-')}" if space else benchmark.what


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
        f"commit {found.get('commit', 'unknown')}",
    ]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"{', '.join(parts)}; {versions}; {found['date']}."


def _line(benchmark: Benchmark, row: Row) -> str:
    spread = f" ({row['p10_s'] * 1e3:.3g} to {row['p90_s'] * 1e3:.3g})" if "p10_s" in row else ""
    flops = "gflops" in row
    cells = [
        label(benchmark, row),
        f"`floodtide bench {benchmark}`",
        str(row["threads"]),
        f"{row['median_s'] * 1e3:.3g}{spread}",
        f"{row['gflops']:.0f} GFLOP/s" if flops else f"{row['gb_per_s']:.0f} GB/s",
        f"{row['ratio']:.2f}" if flops and row["name"] != "peak" else "",
        f"{row['speedup']:.2f}" if "speedup" in row else "",
        f"{row['step_memory_mib']:.0f}" if "step_memory_mib" in row else "",
    ]
    return "| " + " | ".join(cells) + " |"


def write(out: Path, found: Mapping[str, Any], results: Sequence[Result]) -> Path:
    """Write the page, its picture and all rows to a folder, which is created if it is missing. Return the page.

    Raises:
        StorageError: If a file cannot be written.
    """
    make_folder(out)
    base = file_name(found)
    page = render(
        "machine.txt",
        "lab/bench/templates",
        title=title(found),
        command=f"floodtide lab bench machine {shlex.quote(str(out))}",
        conditions=conditions(found),
        picture=f"{base}.svg",
        table=[*HEADER, *(line for benchmark, rows in results for line in lines(benchmark, rows))],
    )
    replace_bytes(out / f"{base}.svg", draw(results, "svg"))
    replace_text(out / f"{base}.md", page)
    replace_text(out / f"{base}.json", json.dumps(document(found, results), indent=1) + "\n")
    return out / f"{base}.md"


def title(found: Mapping[str, Any]) -> str:
    """Return the name of the processor. Virtual machines hide the model's name, so family and model numbers follow."""
    if "family" not in found:
        return str(found["processor"])
    return f"{found['processor']} (family {found['family']}, model {found['model']})"


def file_name(found: Mapping[str, Any]) -> str:
    """Return the title as the name of a file, without suffix: "amd-epyc-family-26-model-2"."""
    return re.sub(r"[^a-z0-9]+", "-", title(found).lower()).strip("-")


def _commit() -> str:
    """Return the commit of floodtide's source tree that this package lies in, with "+" if it has changes; else ""."""
    tree = Path(__file__).parents[4]
    if not (tree / "cpp" / "include" / "floodtide").is_dir():
        return ""  # an installed package: a Git repository around it is not floodtide's
    command = ["git", "-C", str(tree), "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        done = subprocess.run([*command, "--exclude=*"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def draw(results: Sequence[Result], kind: str) -> bytes:
    """Return the picture as a file of kind "svg", "png" or "pdf".

    Left: the roofline of one thread. Lines are limits: the peak rate of multiply-adds, and reading from caches and
    memory. Points are the passes of a convolution, counted as direct convolution. Right: PyTorch's median time divided
    by ours, if PyTorch was measured.
    """
    with style.figure(11.0, 4.4) as drawn:
        left, right = drawn.subplots(1, 2)
        _roofline(left, [row for _, rows in results for row in rows if row["threads"] == 1])
        _bars(right, results)
        return style.rendered(drawn, kind, dpi=130)


def _roofline(axes: Axes, rows: Sequence[Row]) -> None:
    peak = max(row["gflops"] for row in rows if row["name"] == "peak")
    axes.axhline(peak, color="black", lw=1.2)
    axes.annotate(f"multiply-adds: {peak:.0f} GFLOP/s", (0.11, peak * 1.1), fontsize=8)
    reads = [row for row in rows if row["name"] == "bandwidth"]
    for index, row in enumerate(reads):
        speed = row["gb_per_s"]
        label = f"reading {row['shape']}: {speed:.0f} GB/s"
        axes.plot(
            [_FLOPS_PER_BYTE[0], peak / speed],
            [speed * _FLOPS_PER_BYTE[0], peak],
            color=style.SERIES[index],
            ls=("-", "--", "-.")[index % 3],
            marker="",
            label=label,
        )
    for index, row in enumerate(row for row in rows if row["name"].startswith("conv ")):
        axes.plot(
            [row["gflops"] * row["median_s"] * 1e9 / _CONV_BYTES],
            [row["gflops"]],
            color=style.SERIES[3],
            ls="",
            marker=("o", "s", "^")[index % 3],
            label=f"convolution, {row['name'].partition(' ')[2].replace('_', '-')}",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*_FLOPS_PER_BYTE)
    axes.set_xlabel("floating-point operations of direct convolution per byte")
    axes.set_ylabel("GFLOP/s")
    axes.set_title("Roofline, one thread")
    axes.legend(loc="lower right")


def _bars(axes: Axes, results: Sequence[Result]) -> None:
    compared = [
        (f"{label(benchmark, row)}, {count_of(row['threads'], 'thread')}", row["speedup"])
        for benchmark, rows in results
        for row in rows
        if "speedup" in row
    ]
    axes.set_title("PyTorch's time / floodtide's")
    if not compared:
        axes.text(0.5, 0.5, "PyTorch was not measured", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    places = range(len(compared))[::-1]
    axes.barh(places, [ratio for _, ratio in compared], color=style.SERIES[0], height=0.7)
    for place, (_, ratio) in zip(places, compared, strict=True):
        axes.annotate(
            f"{ratio:.2f}", (ratio, place), xytext=(3, 0), textcoords="offset points", va="center"
        )
    axes.axvline(1.0, color="black", lw=1.0)
    axes.set_yticks(places, [name for name, _ in compared])
    axes.set_xlim(0, 1.15 * max(ratio for _, ratio in compared))
    axes.set_xlabel("above 1: floodtide is faster")
    axes.grid(visible=False, axis="y")
