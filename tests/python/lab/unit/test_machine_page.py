# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab bench machine`: the page about the speed of a machine."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from floodtide.bench import everything
from floodtide.lab.bench import machine
from floodtide.lab.cli.bench import command

pytestmark = pytest.mark.extra


Measured = list[tuple[everything.Benchmark, list[dict[str, Any]]]]


def row(name: str, **fields: Any) -> dict[str, Any]:
    common = {"threads": 1, "median_s": 0.1, "p10_s": 0.09, "p90_s": 0.2, "level": "avx2"}
    return common | {"name": name, "gflops": 200.0, "peak_gflops": 100.0, "ratio": 2.0} | fields


@pytest.fixture
def measured() -> Measured:
    peak, read, conv, step, *_ = everything.BENCHMARKS
    reading = {"name": "bandwidth", "shape": "4 MiB for each thread", "gb_per_s": 50.0}
    reading |= {"threads": 1, "median_s": 0.1, "p10_s": 0.09, "p90_s": 0.2}
    ours = row("step", speedup=2.5, step_memory_mib=150.0)
    return [
        (peak, [row("peak", gflops=100.0, ratio=1.0)]),
        (read, [reading]),
        (conv, [row("conv forward"), row("conv backward_data")]),
        (step, [ours, row("step torch channels_last")]),
    ]


def test_a_table_has_a_line_for_each_row_of_ours(measured: Measured) -> None:
    lines = [line for result in measured for line in machine.lines(*result)]
    assert lines == [
        "| multiply-adds, avx2 | `floodtide bench all` | 1 | 100 (90 to 200) | 100 GFLOP/s |  |  |  |",
        "| reading 4 MiB for each thread | `floodtide bench all` | 1 | 100 (90 to 200) | 50 GB/s |  |  |  |",
        "| convolution 33³, 32 to 32 channels: forward | `floodtide bench conv` | 1 | 100 (90 to 200) | 200 GFLOP/s"
        " | 2.00 |  |  |",
        "| convolution 33³, 32 to 32 channels: backward-data | `floodtide bench conv` | 1 | 100 (90 to 200)"
        " | 200 GFLOP/s | 2.00 |  |  |",
        "| FFN training step, depth 9, 33³ | `floodtide bench step --against torch` | 1 | 100 (90 to 200)"
        " | 200 GFLOP/s | 2.00 | 2.50 | 150 |",
    ]
    columns = machine.HEADER[0].count("|")
    assert {line.count("|") for line in lines} == {columns}


def test_pictures_have_a_bar_for_each_comparison(measured: Measured) -> None:
    assert machine.draw(measured, "png").startswith(b"\x89PNG")
    assert machine.draw(measured[:3], "svg").startswith(b"<?xml")  # nothing to compare


def test_facts_are_those_of_this_machine() -> None:
    found = machine.facts()
    assert found["cores"] >= 1
    assert found["versions"]["floodtide"]


def test_the_files_have_the_name_of_the_processor() -> None:
    found = {"processor": "A (R) B@2.5", "family": 6, "model": 7}
    assert machine.file_name(found) == "a-r-b-2-5-family-6-model-7"
    assert machine.title({"processor": "arm"}) == "arm"


def test_an_installed_package_has_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Git checkout around an environment is not the source of floodtide."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    inside = tmp_path / "environment" / "floodtide" / "lab" / "bench" / "machine.py"
    monkeypatch.setattr(machine, "__file__", str(inside))
    assert "commit" not in machine.facts()


def test_the_command_writes_page_picture_and_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(everything, "BENCHMARKS", everything.BENCHMARKS[:3])
    words = ["machine", str(tmp_path / "results"), "--threads", "1", "--seconds", "0"]
    done = CliRunner().invoke(command, words, standalone_mode=False)
    assert done.exception is None, done.output
    page, rows, picture = (
        next((tmp_path / "results").glob(f"*{suffix}")) for suffix in (".md", ".json", ".svg")
    )
    assert done.stdout == f"{page}\n"
    names = {found["name"] for found in json.loads(rows.read_text())["rows"]}
    assert names >= {"peak", "bandwidth", "conv forward"}
    assert f"]({picture.name})" in page.read_text("utf-8")


ROWS = {
    "training step, depth 9, 33³, batch 1": "FFN training step, depth 9, 33³",
    "the same, batch 2": "FFN training step, depth 9, 33³, batch 2",
    "forward pass, depth 12, 33³": "FFN forward pass, depth 12, 33³",
    "U-Net step, 5 levels, 16 features, 240 x 240, batch 8": "U-Net, 240², batch 8: step",
    "forward pass of this U-Net": "U-Net, 240², batch 8: forward",
}


def test_the_ranges_on_the_page_about_performance_contain_the_committed_run() -> None:
    docs = Path(__file__).parents[4] / "docs"
    page = (docs / "performance.md").read_text("utf-8")
    run = (docs / "performance/amd-epyc-family-26-model-2.md").read_text("utf-8")
    number, limits = r"(\d\.\d+)", r"(\d\.\d) to (\d\.\d)"
    found = re.findall(rf"^\| ([^|]+) \| [^|]+ \| {limits} \| {limits} \|$", page, re.MULTILINE)
    assert [name for name, *_ in found] == list(ROWS)
    for name, *ends in found:
        row = rf"^\| {re.escape(ROWS[name])} \|[^|]+\| ([12]) \|[^|]+\|[^|]+\|[^|]+\| {number} \|"
        ratios = dict(re.findall(row, run, re.MULTILINE))
        for threads, low, high in (("1", *ends[:2]), ("2", *ends[2:])):
            ratio = round(float(ratios[threads]), 1)
            assert float(low) <= ratio <= float(high), f"{name}, {threads} threads"
