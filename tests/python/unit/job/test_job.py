# SPDX-License-Identifier: Apache-2.0
"""`floodtide job`: the scripts' text, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import floodtide as ft
from floodtide import cli, config
from floodtide.job import Job, render

GOLDEN = Path(__file__).resolve().parents[2] / "golden"

EXAMPLES = {
    "slurm": [
        *("fib25.toml", "--nodes", "64", "--time", "06:00:00", "--ranks-per-node", "2"),
        *("--cores-per-node", "64"),
        *("--environment", "env.tar.gz", "--set", "training.walkers=256"),
    ],
    "pbs": [
        *("fib25.toml", "--nodes", "8", "--time", "1-00:00:00", "--cores-per-node", "64"),
        *("--environment", "floodtide.sif"),
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fib25.toml").write_text('[run]\ndir = "runs/fib 25"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_bash(text: str) -> None:
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("scheduler", EXAMPLES)
def test_script_is_the_golden_one_and_valid_bash(
    folder: Path, scheduler: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["job", scheduler, *EXAMPLES[scheduler]]) == 0

    text = (folder / f"fib25.{scheduler}").read_text()
    golden = (GOLDEN / f"job.{scheduler}").read_text().replace("VERSION", ft.__version__)
    assert text == golden
    check_bash(text)
    assert f"fib25.{scheduler}: " in capsys.readouterr().out


def test_least_command_of_slurm_counts_the_cores_when_it_runs(folder: Path) -> None:
    assert cli.run(["job", "slurm", "fib25.toml", "--nodes", "64", "--time", "06:00:00"]) == 0

    text = (folder / "fib25.slurm").read_text()
    assert "export OMP_NUM_THREADS=$((cores / 1))" in text
    assert "--cpus-per-task=" not in text.split("set -u")[0]
    check_bash(text)


@given(
    scheduler=st.sampled_from(["slurm", "pbs"]),
    nodes=st.integers(1, 4096),
    per_node=st.integers(1, 8),
    environment=st.sampled_from(["", "env", "a b.tar.gz", "it's.sif", "$HOME.tar"]),
    name=st.text(
        st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="/"), min_size=1
    ),
    value=st.text(st.characters(blacklist_categories=["Cs", "Cc"])),
)
@settings(max_examples=25, deadline=None)
def test_any_names_make_valid_bash(
    scheduler: str, nodes: int, per_node: int, environment: str, name: str, value: str
) -> None:
    job = Job(
        nodes=nodes,
        time="01:00:00",
        ranks_per_node=per_node,
        cores_per_node=per_node * 4,
        environment=environment,
    )
    text = render(scheduler, job, config.from_dict({}), name, [f"run.dir={value}"], f"{name}.sh")
    check_bash(text)
    shown = text[text.index("train ") : text.index(" &\ntraining=")]
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {shown}"], capture_output=True, text=True, check=True
    ).stdout.split("\0")
    assert words[:-1] == ["train", name, "--set", f"run.dir={value}"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("06:00:00", 21600), ("1-00:00:30", 86430), ("100:00:00", 360000), ("0:01:05", 65)],
)
def test_times(text: str, seconds: int) -> None:
    assert Job(nodes=1, time=text).time_s == seconds


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["slurm", "--nodes", "2", "--time", "6h"], "--time is '6h', expected HH:MM:SS"),
        (["slurm", "--nodes", "2", "--time", "06:61:00"], "expected HH:MM:SS"),
        (["slurm", "--nodes", "2", "--time", "00:02:00"], "at least 60 s more than the margin"),
        (["slurm", "--nodes", "0", "--time", "06:00:00"], "Invalid value for '--nodes'"),
        (["slurm", "--time", "06:00:00"], "Missing option '--nodes'"),
        (["pbs", "--nodes", "2", "--time", "06:00:00"], "--cores-per-node is missing"),
        (
            ["slurm", *("--nodes", "2", "--time", "06:00:00"), "--set", "training.walkers=1"],
            "training.walkers is 1 for 2 ranks (2 nodes with 1)",
        ),
        (
            [
                *("slurm", "--nodes", "2", "--time", "06:00:00"),
                *("--set", "training.fit_time=true", "--set", "run.stop_after_s=600"),
            ],
            "expected run.stop_after_s = 0",
        ),
        (
            [
                *("slurm", "--nodes", "2", "--time", "06:00:00"),
                "--cores-per-node",
                "4",
                "--ranks-per-node",
                "5",
            ],
            "expected at most the 4 cores of a node",
        ),
    ],
)
def test_what_does_not_fit_is_one_line_and_exit_status_2(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.run(["job", arguments[0], "fib25.toml", *arguments[1:]])

    error = capsys.readouterr().err
    assert status == 2
    assert message in error
    assert len(error.splitlines()) == 1
    assert list(folder.iterdir()) == [folder / "fib25.toml"]


def test_script_that_exists_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["job", "slurm", "fib25.toml", "--nodes", "2", "--time", "06:00:00"]
    (folder / "fib25.slurm").write_text("mine")

    assert cli.run(command) == 2
    assert "expected a new name (--out)" in capsys.readouterr().err
    assert (folder / "fib25.slurm").read_text() == "mine"
    (folder / "fib25.slurm").unlink()
    assert cli.run(command) == 0
