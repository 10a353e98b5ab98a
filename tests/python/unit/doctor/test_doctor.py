# SPDX-License-Identifier: Apache-2.0
"""`floodtide info --machine`: findings from facts, the facts themselves, and the command."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

import floodtide as ft
from floodtide import cli, config
from floodtide.doctor import host, judge
from floodtide.doctor.judge import Diagnosis
from floodtide.train import setup


def healthy(rank: int = 0, host_name: str = "node0", **changes: Any) -> dict[str, Any]:
    """Facts of a rank of two on its host, with nothing to find."""
    facts: dict[str, Any] = {
        "rank": rank,
        "host": host_name,
        "node": host_name,
        "launcher": "srun",
        "library": "libmpi.so.12",
        "family": "mpich",
        "library_version": "MPICH Version: 5.0.2",
        "cores": 8,
        "host_cores": 16,
        "affinity": list(range(8 * (rank % 2), 8 * (rank % 2) + 8)),
        "quota": None,
        "threads": 8,
        "environment": {},
        "isa": "avx512",
        "processor": "Xeon",
        "gflops": 800.0,
        "memory_available_bytes": 64 << 30,
        "memory_needed_bytes": 1 << 30,
        "checkpoint_bytes": 8_000_000,
        "checkpoints": 4,
        "files": {
            "path": "/scratch/run",
            "seen": True if rank % 2 == 0 else None,
            "free_bytes": 1 << 40,
        },
    }
    return facts | changes


def job(**changes: Any) -> list[dict[str, Any]]:
    """Four ranks on two hosts; the changes are made to rank 3."""
    ranks = [healthy(r, f"node{r // 2}") for r in range(4)]
    ranks[3] |= changes
    return ranks


def findings(ranks: list[dict[str, Any]], check: str) -> list[Diagnosis]:
    return [finding for finding in judge.findings(ranks) if finding.check == check]


def only(ranks: list[dict[str, Any]]) -> Diagnosis:
    """The one finding that is not ok."""
    (found,) = [finding for finding in judge.findings(ranks) if finding.level != "ok"]
    assert found.advice
    return found


def test_healthy_job_has_nothing_but_ok() -> None:
    found = judge.findings(job())

    assert {finding.level for finding in found} == {"ok"}
    assert not any(finding.advice for finding in found)
    checks = [finding.check for finding in found]
    assert checks == [
        *("launcher", "threads", "affinity", "environment", "speed", "memory", "directory"),
        "shared",
    ]


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        (
            {"library_version": "MPICH Version: 4.1"},
            "problem",
            "hosts have different MPI libraries",
        ),
        (
            {"threads": 9, "cores": 9},
            "problem",
            "node1: 17 threads of 2 ranks on 16 cores: over-subscribed",
        ),
        (
            {"quota": 10.5},
            "problem",
            "16 threads of 2 ranks on 10.5 cores: over-subscribed",
        ),
        (
            {"environment": {"OMP_PROC_BIND": "close"}},
            "advice",
            "the single core of the main thread",
        ),
        ({"environment": {"OMP_PLACES": "cores"}}, "advice", "OMP_PLACES=cores: threads that read"),
        ({"gflops": 600.0}, "advice", "rank 3 (node1) slow: 75 of 100 GFLOP/s a thread"),
        ({"memory_needed_bytes": 64 << 30}, "problem", "node1: 2 ranks of the training need 65.0"),
        ({"memory_needed_bytes": 54 << 30}, "advice", "need 55.0 GiB, 64.0 GiB is free"),
    ],
)
def test_each_fault_of_a_rank_is_found_and_nothing_else(
    changes: dict[str, Any], level: str, text: str
) -> None:
    found = only(job(**changes))

    assert found.level == level
    assert text in found.text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"error": "Permission denied"}, "files cannot be written: Permission"),
        ({"error": "unable to lock file"}, "files cannot be written: unable to lock file"),
        ({"free_bytes": 20_000_000}, "19.1 MiB free"),
    ],
)
def test_each_fault_of_the_run_directory_is_found(changes: dict[str, Any], text: str) -> None:
    ranks = job()
    ranks[0]["files"] = ranks[0]["files"] | changes
    found = only(ranks)

    assert (found.check, found.level) == ("directory", "problem")
    assert text in found.text


def test_directory_that_another_host_does_not_see_is_a_problem() -> None:
    ranks = job()
    ranks[2]["files"] = ranks[2]["files"] | {"seen": False}
    found = only(ranks)
    assert (found.check, found.level) == ("shared", "problem")
    assert "is not the one on node1" in found.text


def test_hosts_of_one_name_are_counted_apart() -> None:
    ranks = [facts | {"host": "node"} for facts in job()]
    assert findings(ranks, "launcher")[0].text.startswith("4 ranks on 2 hosts, ")


def test_rank_pinned_to_one_core_is_a_problem() -> None:
    ranks = [healthy(r, cores=1, affinity=[r], launcher="Open MPI's mpiexec") for r in range(2)]
    (found,) = findings(ranks, "affinity")
    assert found.level == "problem"
    assert "rank 0 (node0), rank 1 (node0) may use 1 core for 8 threads: pinned" in found.text


def test_idle_cores_are_advice() -> None:
    found = only([healthy(r, threads=4, gflops=400.0) for r in range(2)])
    assert "8 threads of 2 ranks on 16 cores: cores stay idle" in found.text
    assert "to 8," in found.advice


@given(
    cores=st.integers(1, 256),
    ranks=st.integers(1, 32),
    threads=st.integers(1, 64),
    quota=st.one_of(st.none(), st.floats(0.1, 300)),
)
def test_threads_are_a_problem_exactly_when_cores_are_fewer(
    cores: int, ranks: int, threads: int, quota: float | None
) -> None:
    everyone = list(range(cores))
    facts = [
        healthy(r, affinity=everyone, cores=cores, threads=threads, quota=quota)
        for r in range(ranks)
    ]
    level, _, _ = judge.threads(facts)
    over = ranks * threads > min(cores, quota or cores)
    assert (level == "problem") == over


@given(depth=st.integers(2, 9), features=st.integers(1, 40), fov=st.sampled_from([9, 17, 21]))
@settings(max_examples=6, deadline=None)
def test_memory_estimate_covers_what_the_network_takes(depth: int, features: int, fov: int) -> None:
    document = {
        "model": {"depth": depth, "features": features, "fov": 3 * [fov], "deltas": [2, 2, 2]}
    }
    network = ft.nn.FFN(depth, 3 * [fov], [2, 2, 2], features)
    zeros = np.zeros((1, fov, fov, fov), np.float32)
    network.loss_and_gradients(zeros, zeros, zeros)
    estimate = setup.needed_bytes(config.from_dict(document), ranks=1, threads=1)
    passes = estimate - ft._core.resident_bytes()

    assert setup.parameter_count(config.from_dict(document)) == network.core.parameters().size
    assert passes >= 0.95 * network.core.workspace_bytes()


def groups(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_quota_of_version_2_groups_is_the_tightest_around(tmp_path: Path) -> None:
    groups(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job/step\n",
            "groups/job/cpu.max": "250000 100000",
            "groups/job/step/cpu.max": "max 100000",
        },
    )
    assert host.cpu_quota(tmp_path / "proc/self", tmp_path / "groups") == 2.5


def test_quota_of_version_1_groups_and_of_none(tmp_path: Path) -> None:
    groups(
        tmp_path,
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/job\n3:memory:/job\n",
            "groups/cpu/job/cpu.cfs_quota_us": "150000",
            "groups/cpu/job/cpu.cfs_period_us": "100000",
            "groups/cpu/cpu.cfs_quota_us": "-1",
        },
    )
    assert host.cpu_quota(tmp_path / "proc/self", tmp_path / "groups") == 1.5
    assert host.cpu_quota(tmp_path, tmp_path) is None


def probed(folder: Path) -> dict[str, Any]:
    ft.init()
    before = sorted(folder.iterdir())
    facts = host.directory_facts(folder / "a" / "b")
    assert sorted(folder.iterdir()) == before  # nothing stays
    return facts


def test_nearest_existing_directory_of_this_machine_is_well(tmp_path: Path) -> None:
    facts = probed(tmp_path)
    assert (facts["path"], facts.get("error"), facts["seen"]) == (str(tmp_path), None, True)
    assert facts["free_bytes"] > 0


def test_directory_that_cannot_be_written_is_told() -> None:
    ft.init()
    assert "error" in host.directory_facts(Path("/proc"))


def test_command_prints_findings_and_exits_by_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"run": {"dir": str(tmp_path / "runs" / "a"), "threads": 1}}
    (tmp_path / "a.toml").write_text(tomli_w.dumps(document))

    status = cli.run(["info", "--machine", str(tmp_path / "a.toml"), "--json"])

    printed = json.loads(capsys.readouterr().out)
    assert status == 0
    assert printed["ok"] is True
    assert printed["ranks"][0]["files"]["path"] == str(tmp_path)
    assert {finding["level"] for finding in printed["findings"]} <= {"ok", "advice"}

    many = str(8 * (os.cpu_count() or 1))
    status = cli.run(
        ["info", "--machine", str(tmp_path / "a.toml"), "--set", f"run.threads={many}"]
    )

    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    at = next(i for i, line in enumerate(lines) if line.startswith("problem  threads"))
    assert "over-subscribed" in lines[at]
    assert lines[at + 1].strip().startswith("-> set OMP_NUM_THREADS or run.threads to")


def test_command_refuses_a_wrong_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["info", "--machine", str(tmp_path / "none.toml")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err
    assert cli.run(["info", "--set", "run.threads=2"]) == 2
    assert "expected --machine too" in capsys.readouterr().err


def test_examination_without_a_fitting_launcher_is_one_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails() -> None:
        raise ft.errors.UnsupportedError("mpi: mpiexec started 2 ranks, but no")

    monkeypatch.setattr("floodtide.comm.world.current", fails)
    found, _ = host.examine(config.from_dict({}), tmp_path)
    assert [(f.check, f.level) for f in found] == [("launcher", "problem")]
    assert found[0].text == "mpiexec started 2 ranks, but no"


def test_findings_do_not_change_the_facts() -> None:
    ranks = job()
    before = copy.deepcopy(ranks)
    judge.findings(ranks)
    assert ranks == before
