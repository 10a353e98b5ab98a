# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of whole trainings run under mpiexec and print their rows once; what they measure is not tested."""

from __future__ import annotations

import json
from typing import Any

import pytest
from launch import mpiexec, shared

pytestmark = [pytest.mark.mpi, pytest.mark.any_library, pytest.mark.extra]

SMALL = ["--depth", "2", "--fov", "9", "--features", "4", "--json"]


def bench(ranks: int, name: str, *arguments: str) -> list[dict[str, Any]]:
    result = shared(ranks, ["-m", "floodtide", "lab", "bench", name, *SMALL, *arguments])
    assert result.status == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert all(row["ranks"] == ranks for row in rows)
    return rows


def test_train_has_a_row_for_each_setting() -> None:
    against = ("--against", "comm.exactness=workers", "--against", "run.trace=true")
    rows = bench(2, "train", "--set", "training.walkers=2", *against, "--steps", "3")
    assert [row["kernel"] for row in rows] == [
        "as it is",
        "comm.exactness=workers",
        "run.trace=true",
    ]
    assert rows[0]["ratio"] == 1
    assert all(row["samples"] == 3 for row in rows)


def test_stalls_are_those_of_the_delay() -> None:
    undelayed, inside, ahead = bench(2, "stalls", "--fov", "9", "--patches", "2", "--rounds", "1")
    assert inside["predicted_s"] > undelayed["step_s"]
    assert inside["wait_data_s"] > 0
    assert inside["model_ratio"] == pytest.approx(inside["step_s"] / inside["predicted_s"])
    assert ahead["moves"] >= 1


def test_stragglers_train_to_the_end_in_every_mode() -> None:
    arguments = ("--steps", "6", "--seeds", "1", "--sleep-ms", "2", "--slowed", "3")
    rows = bench(3, "stragglers", *arguments)
    assert [row["kernel"] for row in rows] == [
        "synchronous",
        "synchronous",
        "partial, drop",
        "partial, carry",
    ]
    assert rows[0]["per_update"] == rows[1]["per_update"] == 3
    assert all(row["per_update"] >= 2 for row in rows[2:])
    # A slow rank changes nothing but the time of synchronous training.
    assert rows[0]["losses"] == rows[1]["losses"]


def test_one_rank_waits_for_nobody() -> None:
    result = mpiexec(1, ["-m", "floodtide", "lab", "bench", "stragglers", *SMALL])
    assert result.status == 2
    assert "bench stragglers: 1 rank, expected at least 2" in result.stderr
