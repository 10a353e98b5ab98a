# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench all`: runs the benchmarks and prints their rows."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from floodtide import errors
from floodtide.bench import everything
from floodtide.cli.bench import command

pytestmark = pytest.mark.extra


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words, standalone_mode=False)


def test_the_command_prints_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everything, "BENCHMARKS", everything.BENCHMARKS[:1])
    done = run("all", "--threads", "1", "--seconds", "0", "--json")
    assert done.exception is None, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {found["name"] for found in rows} >= {"conv forward", "conv backward_data"}


def test_a_benchmark_that_fails_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = (everything.Benchmark("conv --size 0", "a convolution without voxels"),)
    monkeypatch.setattr(everything, "BENCHMARKS", wrong)
    done = run("all", "--threads", "1", "--seconds", "0")
    assert isinstance(done.exception, errors.InternalError)
    assert "bench conv --size 0" in str(done.exception)
