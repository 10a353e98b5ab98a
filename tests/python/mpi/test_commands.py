# SPDX-License-Identifier: Apache-2.0
"""Commands under mpiexec that belong to no other test: info and bench allreduce."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from launch import mpiexec, run, shared, skip_without_mpi

import floodtide as ft

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]


def test_info_under_mpiexec_shows_ranks_once() -> None:
    result = shared(2, ["-m", "floodtide", "info", "--json"])

    facts = json.loads(result.stdout)  # one object: rank 0 alone prints
    assert result.status == 0
    assert facts["mpi"]["ranks"] == 2
    assert facts["mpi"]["thread_level"] in ("serialized", "multiple")


def test_bench_allreduce_has_a_row_for_each_algorithm() -> None:
    command = ["bench", "allreduce", "--elements", "1000", "--seconds", "0", "--json"]
    result = shared(2, ["-m", "floodtide", *command])

    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.status == 0
    own = ft.allreduce_algorithms(own=True)
    kernels = [f"{name}{wire}" for name in own for wire in ("", " bf16")]
    assert [row["kernel"] for row in rows] == ["mpi blocking", *kernels, "mpi"]
    assert all(row["ranks"] == 2 and row["samples"] >= 3 and row["gb_per_s"] > 0 for row in rows)
    sent = {row["kernel"]: row["sent_bytes"] for row in rows}
    assert all(sent[name] == 4000 for name in own)
    assert all(sent[name] == 2 * sent[f"{name} bf16"] for name in own)
    assert {row["kernel"]: row["ratio"] for row in rows}["mpi blocking"] == 1


def test_launcher_of_another_family_is_one_line_from_a_command_and_exit_status_2() -> None:
    skip_without_mpi()

    for variables in (
        {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
        {"PMI_SIZE": "2", "PMI_RANK": "0"},
    ):
        result = run([sys.executable, "-m", "floodtide", "info"], env=variables)

        assert result.status == 2
        assert result.stdout == ""
        assert "mpiexec started 2 ranks, but" in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_info_of_the_machine_gathers_all_ranks_and_prints_once(tmp_path: Path) -> None:
    result = mpiexec(
        2, ["-m", "floodtide", "info", "--machine", "--json", "--set", f"run.dir={tmp_path}"]
    )

    printed = json.loads(result.stdout)  # one object: rank 0 alone prints
    assert result.status == (0 if printed["ok"] else 1)
    assert [facts["rank"] for facts in printed["ranks"]] == [0, 1]
    checks = {finding["check"] for finding in printed["findings"]}
    assert {"launcher", "speed", "directory"} <= checks
    assert list(tmp_path.iterdir()) == []


def test_info_of_the_machine_names_oversubscription_over_ranks_and_all_exit_1(
    tmp_path: Path,
) -> None:
    threads = str(os.cpu_count() or 1)  # of each of the two ranks
    result = mpiexec(
        2,
        ["-m", "floodtide", "info", "--machine", "--set", f"run.dir={tmp_path}"],
        env={"OMP_NUM_THREADS": threads},
    )

    assert result.status == 1
    assert f"{2 * int(threads)} threads of 2 ranks on" in result.stdout
    assert result.stdout.count("over-subscribed") == 1


def test_info_of_the_machine_says_that_the_launcher_does_not_fit() -> None:
    skip_without_mpi()

    for variables in (
        {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
        {"PMI_SIZE": "2", "PMI_RANK": "0"},
    ):
        result = run([sys.executable, "-m", "floodtide", "info", "--machine"], env=variables)

        assert result.status == 1
        assert result.stdout.startswith("problem  launcher")
        assert "mpiexec started 2 ranks, but" in result.stdout
