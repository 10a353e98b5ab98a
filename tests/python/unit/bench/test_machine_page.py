# SPDX-License-Identifier: Apache-2.0
"""docs/performance/machine_page.py: the page about the speed of a machine, from rows of `floodtide bench all`."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.extra

SCRIPT = Path(__file__).parents[4] / "docs/performance/machine_page.py"


def row(benchmark: str, name: str, **fields: Any) -> dict[str, Any]:
    common = {"threads": 1, "median_s": 0.1, "p10_s": 0.09, "p90_s": 0.2, "level": "avx2"}
    common |= {"processor": "A (R) B@2.5", "version": "0.1.0", "date": "2026-11-26"}
    rates = {"gflops": 200.0, "peak_gflops": 100.0, "ratio": 2.0}
    return {"benchmark": benchmark, "name": name, **common, **rates, **fields}


ROWS = [
    row("conv", "conv forward"),
    row("conv", "conv forward", threads=2, median_s=0.06),
    row("conv", "conv backward_data"),
    row("step --against torch", "step", speedup=2.5, step_memory_mib=150.0),
    row("step --against torch", "step torch channels_last", kernel="torch channels_last"),
]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:3]], ids=["PyTorch", "alone"])
def test_the_page_has_a_line_for_each_convolution_and_network_of_ours(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    script = runpy.run_path(str(SCRIPT))
    (tmp_path / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    script["main"](tmp_path / "rows", tmp_path)
    page, kept, picture = (next(tmp_path.glob(f"*{kind}")) for kind in (".md", ".jsonl", ".svg"))
    assert kept.read_text() == (tmp_path / "rows").read_text()
    assert picture.read_bytes().startswith(b"<?xml")
    text = page.read_text("utf-8")
    assert f"]({picture.name})" in text
    _, _, *lines = (line for line in text.splitlines() if line.startswith("|"))
    assert (
        lines
        == [
            "| convolution 33³, 32 to 32 channels: forward | 100 (90-200), 60 (90-200) | 2.00, 2.00 |  |  |",
            "| convolution 33³, 32 to 32 channels: backward-data | 100 (90-200) | 2.00 |  |  |",
            "| FFN training step, depth 9, 33³ | 100 (90-200) | 2.00 | 2.50 (torch channels_last) | 150 |",
        ][: len(lines)]
    )
    assert len(lines) == min(len(rows), 4) - 1


def test_the_page_has_the_name_of_the_processor() -> None:
    title = runpy.run_path(str(SCRIPT))["title"]
    assert title("arm", "") == "arm"
    assert title("AMD", "cpu family\t: 26\nmodel\t\t: 2\n") == "AMD (family 26, model 2)"


MACHINE_ROWS = {
    "training step, depth 9, 33³, batch 1": "FFN training step, depth 9, 33³",
    "training step, depth 9, 33³, batch 2": "FFN training step, depth 9, 33³, batch 2",
    "forward pass, depth 12, 33³": "FFN forward pass, depth 12, 33³",
    "U-Net step, 5 levels, 16 features, 240 x 240, batch 8": "U-Net, 240², batch 8: step",
    "forward pass of the same U-Net": "U-Net, 240², batch 8: forward",
}


PASSES = {
    "training step, depth 9, 33³, batch 1": ("step --against torch,", "step"),
    "training step, depth 9, 33³, batch 2": ("step --set training.walkers=2 ", "step"),
    "forward pass, depth 12, 33³": ("forward ", "forward"),
    "U-Net step, 5 levels, 16 features, 240 x 240, batch 8": ("unet ", "unet step"),
    "forward pass of the same U-Net": ("unet ", "unet forward"),
}


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("amd-epyc-family-25-model-17", 4),
        ("amd-epyc-family-25-model-1", 6),
        ("intel-r-xeon-r-processor-family-6-model-167", 8),
    ],
)
def test_the_page_about_performance_rounds_the_ratios_to_pytorch(name: str, column: int) -> None:
    docs = SCRIPT.parents[1]
    page = (docs / "performance.md").read_text("utf-8")
    lines = (docs / f"performance/{name}.jsonl").read_text("utf-8").splitlines()
    run = [json.loads(line) for line in lines]
    cells = [[text.strip() for text in line.split("|")] for line in page.splitlines()]
    rows = {row[1]: row[column : column + 2] for row in cells if len(row) > 9 and row[1] in PASSES}
    assert list(rows) == list(PASSES) == list(MACHINE_ROWS)
    for what, ratios in rows.items():
        benchmark, ours = PASSES[what]
        for threads, ratio in enumerate(ratios, start=1):
            medians = {
                row["name"]: row["median_s"]
                for row in run
                if row["threads"] == threads and row["benchmark"].startswith(benchmark)
            }
            pytorch = min(s for key, s in medians.items() if key.startswith(f"{ours} torch"))
            assert float(ratio) == pytest.approx(pytorch / medians[ours], abs=0.0501), what


def test_the_ranges_on_the_page_about_performance_contain_the_committed_run() -> None:
    docs = SCRIPT.parents[1]
    page = (docs / "performance.md").read_text("utf-8")
    run = (docs / "performance/amd-epyc-family-26-model-2.md").read_text("utf-8")
    number, limits = r"(\d\.\d+)", r"(\d\.\d) to (\d\.\d)"
    found = re.findall(rf"^\| ([^|]+) \| {limits} \| {limits} \|", page, re.MULTILINE)
    assert [name for name, *_ in found] == list(MACHINE_ROWS)
    for name, *ends in found:
        row = rf"^\| {re.escape(MACHINE_ROWS[name])} \|[^|]+\|[^|]+\| {number}, {number} \|"
        (ratios,) = re.findall(row, run, re.MULTILINE)
        for ratio, low, high in ((ratios[0], *ends[:2]), (ratios[1], *ends[2:])):
            assert float(low) <= round(float(ratio), 1) <= float(high), name
