# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench all`: runs the benchmarks and prints their rows."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from floodtide import errors
from floodtide.bench import everything, kernels
from floodtide.bench.shapes import Timing
from floodtide.cli.bench import command

pytestmark = pytest.mark.extra


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words, standalone_mode=False)


def test_the_command_prints_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everything, "BENCHMARKS", everything.BENCHMARKS[:3])
    done = run("all", "--threads", "1", "--seconds", "0", "--json")
    assert done.exception is None, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {found["name"] for found in rows} >= {"peak", "bandwidth", "conv forward"}


def test_a_benchmark_that_fails_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = (everything.Benchmark("conv --size 0", "a convolution without voxels"),)
    monkeypatch.setattr(everything, "BENCHMARKS", wrong)
    done = run("all", "--threads", "1", "--seconds", "0")
    assert isinstance(done.exception, errors.InternalError)
    assert "bench conv --size 0" in str(done.exception)


def test_bandwidth_counts_the_bytes_of_all_threads() -> None:
    rows = list(kernels.bandwidth(Timing(threads=(1, 2), seconds=0), mib=(0.25, 1.0)))
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
        next(kernels.bandwidth(Timing(threads=(64,), seconds=0), mib=(2.0**20,)))
