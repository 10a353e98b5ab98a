# SPDX-License-Identifier: Apache-2.0
"""`floodtide info --machine`: findings from facts, the facts themselves, and the command."""

from __future__ import annotations

import copy
import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

import floodtide as ft
from floodtide import cli, config
from floodtide.doctor import examine, files, host, judge
from floodtide.doctor.judge import Diagnosis
from floodtide.train import setup


def healthy(rank: int = 0, host_name: str = "node0", **changes: Any) -> dict[str, Any]:
    """Facts of a rank of two on its host, with nothing to find."""
    facts: dict[str, Any] = {
        "rank": rank,
        "host": host_name,
        "node": host_name,
        "local_rank": rank % 2,
        "launcher": "srun",
        "library": "libmpi.so.12",
        "family": "mpich",
        "library_version": "MPICH Version: 5.0.2",
        "mpi4py": "4.1.2\tMPICH Version: 5.0.2",
        "thread_level": "multiple",
        "cores": 8,
        "host_cores": 16,
        "affinity": list(range(8 * (rank % 2), 8 * (rank % 2) + 8)),
        "quota": None,
        "threads": 8,
        "environment": {},
        "isa": "avx512",
        "processor_isa": "avx512",
        "processor": "Xeon",
        "gflops": 800.0,
        "memory_available_bytes": 64 << 30,
        "memory_needed_bytes": 1 << 30,
        "checkpoint_bytes": 8_000_000,
        "checkpoints": 4,
        "clock": [-1e-4, 2e-4],
        "started_s": 0.5,
        "files": {
            "path": "/scratch/run",
            "type": "lustre",
            "seen": True if rank % 2 == 0 else None,
            "free_bytes": 1 << 40,
            "write_bytes_per_s": 5e8,
            "rename": "",
            "locks": "",
            "hdf5": "",
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
        *("launcher", "mpi4py", "thread level", "threads", "affinity", "environment", "speed"),
        *("memory", "space", "rename", "locks", "clock", "start-up"),
    ]


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        (
            {"library_version": "MPICH Version: 4.1"},
            "problem",
            "hosts have different MPI libraries",
        ),
        ({"thread_level": "funneled"}, "problem", "MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE"),
        (
            {"threads": 9, "cores": 9},
            "problem",
            "node1: 17 threads of 2 ranks on 16 cores: over-subscribed",
        ),
        (
            {"quota": 10.5},
            "problem",
            "10.5 cores (control groups grant 10.5 of 16): over-subscribed",
        ),
        (
            {"environment": {"OMP_WAIT_POLICY": "ACTIVE"}},
            "advice",
            "OMP_WAIT_POLICY=ACTIVE: threads",
        ),
        ({"environment": {"KMP_BLOCKTIME": "200ms"}}, "advice", "KMP_BLOCKTIME=200ms: with"),
        ({"environment": {"GOMP_SPINCOUNT": "infinite"}}, "advice", "GOMP_SPINCOUNT=infinite"),
        ({"environment": {"OMP_DYNAMIC": "true"}}, "advice", "number of threads may change"),
        (
            {"environment": {"OMP_PROC_BIND": "close"}},
            "advice",
            "the single core of the main thread",
        ),
        ({"environment": {"OMP_PLACES": "cores"}}, "advice", "OMP_PLACES=cores: threads that read"),
        ({"environment": {"OMP_NUM_THREADS": "8"}}, "advice", "differs between ranks"),
        ({"isa": "avx2"}, "advice", "caps rank 3 (node1) at avx2, the processor has avx512"),
        ({"gflops": 600.0}, "advice", "rank 3 (node1) slow: 75 of 100 GFLOP/s a thread"),
        ({"memory_needed_bytes": 64 << 30}, "problem", "node1: 2 ranks of the training need 65.0"),
        ({"memory_needed_bytes": 54 << 30}, "advice", "need 55.0 GiB, 64.0 GiB is free"),
        ({"clock": [0.9, 0.95]}, "advice", "rank 3 (node1) at least 0.9 s off rank 0's clock"),
        ({"clock": [-0.9, -0.85]}, "advice", "rank 3 (node1) at least 0.85 s off"),
        ({"started_s": 95.0}, "advice", "95.0 s from the start of Python"),
    ],
)
def test_each_fault_of_a_rank_is_found_and_nothing_else(
    changes: dict[str, Any], level: str, text: str
) -> None:
    found = only(job(**changes))

    assert found.level == level
    assert text in found.text


@pytest.mark.parametrize(
    ("changes", "environment", "check", "level", "text"),
    [
        ({"error": "Permission denied"}, {}, "directory", "problem", "cannot write: Permission"),
        ({"free_bytes": 20_000_000}, {}, "space", "problem", "0.0 GiB free"),
        ({"write_bytes_per_s": 1e5}, {}, "space", "advice", "takes 8.0 MB and 80.0 s"),
        ({"rename": "no"}, {}, "rename", "problem", "no"),
        ({"locks": "ENOLCK: none"}, {}, "locks", "advice", "file locks do not work (ENOLCK"),
        (
            {"locks": "ENOLCK: none", "hdf5": "unable to lock file"},
            {},
            "locks",
            "problem",
            "HDF5 files cannot be written: unable to lock file (file locks: ENOLCK: none)",
        ),
    ],
)
def test_each_fault_of_the_run_directory_is_found(
    changes: dict[str, Any], environment: dict[str, str], check: str, level: str, text: str
) -> None:
    ranks = job()
    ranks[0]["files"] = ranks[0]["files"] | changes
    found = only(ranks)

    assert (found.check, found.level) == (check, level)
    assert text in found.text
    if check == "locks":
        assert "HDF5_USE_FILE_LOCKING=FALSE" in found.advice


def test_switched_off_locks_are_well() -> None:
    ranks = [healthy(environment={"HDF5_USE_FILE_LOCKING": "FALSE"})]
    ranks[0]["files"]["locks"] = "ENOLCK: none"
    (found,) = findings(ranks, "locks")
    assert found.level == "ok"


def test_directory_that_another_host_does_not_see_is_a_problem() -> None:
    ranks = job()
    ranks[2]["files"] = ranks[2]["files"] | {"seen": False}
    found = only(ranks)
    assert (found.check, found.level) == ("shared", "problem")
    assert "is not the one on node1" in found.text


def test_hosts_of_one_name_are_counted_apart_and_told() -> None:
    ranks = [facts | {"host": "node"} for facts in job()]
    assert findings(ranks, "launcher")[0].text.startswith("4 ranks on 2 hosts, ")
    found = only(ranks)
    assert (found.check, found.level) == ("host names", "advice")
    assert found.text == "2 hosts are all named node"


def test_rank_pinned_to_one_core_is_a_problem() -> None:
    ranks = [healthy(r, cores=1, affinity=[r], launcher="Open MPI's mpiexec") for r in range(2)]
    (found,) = findings(ranks, "affinity")
    assert found.level == "problem"
    assert "ranks 0, 1 (node0) may use 1 core for 8 threads: pinned" in found.text


def test_cores_that_different_ranks_share_in_part_are_named() -> None:
    ranks = job(affinity=list(range(4, 12)))
    levels = {finding.check: finding.level for finding in judge.findings(ranks)}
    assert levels["affinity"] == "advice"


def test_idle_cores_are_advice() -> None:
    found = only([healthy(r, threads=4, gflops=400.0) for r in range(2)])
    assert "8 threads of 2 ranks on 16 cores: cores stay idle" in found.text
    assert "to 8," in found.advice


def test_other_mpi_library_of_mpi4py_is_advice() -> None:
    found = only([healthy(mpi4py="4.1.2\tOpen MPI v5.0.11", threads=8)])
    assert (found.check, found.level) == ("mpi4py", "advice")
    assert "uses Open MPI v5.0.11, floodtide MPICH Version: 5.0.2" in found.text


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
    levels = [finding.level for finding in judge.threads(facts)]
    over = ranks * threads > min(cores, quota or cores)
    assert (levels == ["problem"]) == over


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
    facts = files.examine(folder)
    assert sorted(folder.iterdir()) == before  # nothing stays
    return facts


def test_directory_of_this_machine_is_well(tmp_path: Path) -> None:
    facts = probed(tmp_path)
    assert (facts["rename"], facts["locks"], facts["hdf5"], facts["seen"]) == ("", "", "", True)
    assert facts["write_bytes_per_s"] > 0
    assert facts["free_bytes"] > 0


@pytest.mark.parametrize("kind", ["refused", "granted twice"])
def test_locks_that_do_not_work_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def flock(*_: object) -> None:
        if kind == "refused":
            raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    expected = {
        "refused": "ENOLCK: No locks available",
        "granted twice": "two processes get the same lock at once",
    }
    assert probed(tmp_path)["locks"] == expected[kind]


def test_rename_that_is_a_copy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copying(source: Path, target: Path) -> None:
        Path(target).write_text(Path(source).read_text())
        Path(source).unlink()

    folder = tmp_path / "probe"
    folder.mkdir()
    monkeypatch.setattr(os, "replace", copying)
    assert files._rename(folder) == "a process that reads the old file loses its contents"


def test_directory_that_cannot_be_written_is_told() -> None:
    ft.init()
    assert "error" in files.examine(Path("/proc"))


def test_nearest_existing_directory_is_examined(tmp_path: Path) -> None:
    assert files.existing(tmp_path / "a" / "b") == tmp_path


def test_process_start_is_known_to_the_clock_tick() -> None:
    program = (
        "import time; time.sleep(0.1)\n"
        "from floodtide.doctor.host import since_process_start_s as s\n"
        "a = s(); time.sleep(0.1); b = s(); print(a, b - a)"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(ft.__file__).parents[1])}
    out = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    ).stdout
    start, passed = map(float, out.split())
    assert start >= 0.08  # a clock tick less
    assert 0.08 <= passed < 30


def test_single_rank_knows_its_clock() -> None:
    ft.init()
    low, high = host.clock_offset()
    assert low <= 0 <= high


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

    monkeypatch.setattr("floodtide.comm.world.ensure_init", fails)
    found, _ = examine(config.from_dict({}), tmp_path)
    assert [(f.check, f.level) for f in found] == [("launcher", "problem")]
    assert found[0].text == "mpiexec started 2 ranks, but no"


def test_findings_do_not_change_the_facts() -> None:
    ranks = job()
    before = copy.deepcopy(ranks)
    judge.findings(ranks)
    assert ranks == before
