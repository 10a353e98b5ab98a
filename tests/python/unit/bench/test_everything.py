# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench all`: runs the benchmarks and prints a table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from floodtide import errors
from floodtide.bench import everything, kernels, machine, report
from floodtide.cli.bench import command

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
    lines = [line for result in measured for line in report.lines(*result)]
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
    columns = report.HEADER[0].count("|")
    assert {line.count("|") for line in lines} == {columns}


def test_facts_are_those_of_this_machine() -> None:
    found = machine.facts()
    assert found["cores"] >= 1
    assert found["versions"]["floodtide"]


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words, standalone_mode=False)


def test_the_command_prints_the_table_or_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everything, "BENCHMARKS", everything.BENCHMARKS[:3])
    done = run("all", "--threads", "1", "--seconds", "0", "--json")
    assert done.exception is None, done.output
    rows = json.loads(done.stdout)["rows"]
    assert {found["name"] for found in rows} >= {"peak", "bandwidth", "conv forward"}


def test_a_benchmark_that_fails_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = (everything.Benchmark("conv --size 0", "a convolution without voxels"),)
    monkeypatch.setattr(everything, "BENCHMARKS", wrong)
    done = run("all", "--threads", "1", "--seconds", "0")
    assert isinstance(done.exception, errors.InternalError)
    assert "bench conv --size 0" in str(done.exception)


def test_bandwidth_counts_the_bytes_of_all_threads() -> None:
    rows = list(kernels.bandwidth(thread_counts=(1, 2), mib=(0.25, 1.0), seconds=0))
    assert [(found["threads"], found["mib"]) for found in rows] == [
        (1, 0.25),
        (1, 1.0),
        (2, 0.25),
        (2, 1.0),
    ]
    for found in rows:
        assert found["gb_per_s"] == pytest.approx(
            found["threads"] * 2**28 / found["median_s"] * 1e-9
        )


def test_buffers_must_fit_into_memory() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="the buffers need about"):
        next(kernels.bandwidth(mib=(2.0**20,), thread_counts=(64,), seconds=0))
