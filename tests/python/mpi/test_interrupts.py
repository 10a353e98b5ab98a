# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: a training saves and says how to go on, a second one aborts, other commands leave nothing behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from launch import ENVIRONMENT, MPIEXEC, check, run, skip_without_mpi
from processes import kill_job
from training_volume import document, write_volume

import floodtide as ft
from floodtide import data
from floodtide.train import read_log
from floodtide.train.run_directory import RunDirectory

pytestmark = pytest.mark.mpi

MANY = 1_000_000  # steps that no test waits for
END_S = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("interrupts")
    write_volume(path)
    return path


def configuration(folder: Path, name: str, **sections: dict[str, Any]) -> str:
    sections = {
        "run": {"dir": str(folder / name), "log_every_s": 0.05},
        "training": {"steps": MANY, **sections.pop("training", {})},
        **sections,
    }
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps(document(folder, **sections)))
    return str(path)


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENVIRONMENT},
        start_new_session=True,
    )


def train(path: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "floodtide", "train", path, *arguments]


def wait_until(process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + END_S
    while not reached():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def steps_logged(directory: Path) -> int:
    records = [r for r in read_log(directory / "log.jsonl") if r["kind"] == "train"]
    return records[-1]["step"] if records else 0


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        _, stderr = process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        kill_job(process)
        pytest.fail(f"no end after the signal: {process.communicate()}")
    return process.returncode, stderr


def newest(directory: Path) -> str:
    return RunDirectory(directory, writer=True).newest_checkpoint()


def require_goes_on(folder: Path, name: str) -> None:
    """The same command resumes at the last step."""
    last = steps_logged(folder / name)
    assert newest(folder / name).endswith(f"step-{last}.h5")
    path = configuration(folder, name, training={"steps": last + 2})
    result = run(train(path))
    assert result.status == 0, result.stderr
    assert steps_logged(folder / name) == last + 2


def test_first_interrupt_saves_and_says_how_to_go_on(folder: Path) -> None:
    process = start(train(configuration(folder, "alone")))
    wait_until(process, lambda: steps_logged(folder / "alone") >= 3)
    process.send_signal(signal.SIGINT)
    status, stderr = finish(process)

    assert status == 130, stderr
    told = [line for line in stderr.splitlines() if "the same command resumes" in line]
    last = steps_logged(folder / "alone")
    assert told == [
        f"stopped at step {last} of {MANY} with a checkpoint: the same command resumes from there"
    ]
    assert stderr.count("Ctrl-C again aborts") == 1
    assert "Traceback" not in stderr
    require_goes_on(folder, "alone")


def test_second_interrupt_aborts_in_the_middle_of_a_step(folder: Path) -> None:
    short = configuration(folder, "abort", training={"steps": 3})
    assert run(train(short)).status == 0
    before = newest(folder / "abort")
    process = start(train(configuration(folder, "abort", training={"accumulate": 65536})))
    wait_until(
        process,
        lambda: [r["kind"] for r in read_log(folder / "abort" / "log.jsonl")].count("start") == 2,
    )
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("Ctrl-C again aborts" in line for line in process.stderr)
    assert process.poll() is None  # the step takes a minute
    process.send_signal(signal.SIGINT)
    struck = time.monotonic()
    status, stderr = finish(process)

    assert status == 130
    assert time.monotonic() - struck < 5
    assert "aborted; the same command resumes from the newest checkpoint" in stderr
    assert newest(folder / "abort") == before
    path = configuration(folder, "abort", training={"steps": 5})
    assert run(train(path)).status == 0


def test_interrupt_of_rank_1_stops_all_with_130(folder: Path) -> None:
    skip_without_mpi()
    program = (
        "import os, sys, floodtide; from floodtide.cli import main;"
        "from floodtide.comm import world; world.current();"
        "open(f'{sys.argv[2]}.{floodtide.rank()}', 'w').write(str(os.getpid())); main(['train', sys.argv[1]])"
    )
    path = configuration(folder, "rank1")
    process = start(
        [str(MPIEXEC), "-n", "2", sys.executable, "-c", program, path, str(folder / "rank1")]
    )
    wait_until(process, lambda: steps_logged(folder / "rank1") >= 3)
    os.kill(int((folder / "rank1.1").read_text()), signal.SIGINT)
    status, stderr = finish(process)

    assert status == 130, stderr
    assert stderr.count("with a checkpoint: the same command resumes from there") == 1
    require_goes_on(folder, "rank1")


def test_interrupt_from_a_terminal_leaves_a_readable_checkpoint(folder: Path) -> None:
    skip_without_mpi()
    command = [str(MPIEXEC), "-n", "2", *train(configuration(folder, "terminal"))]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, {**os.environ, **ENVIRONMENT})
    directory = folder / "terminal"
    deadline = time.monotonic() + END_S
    os.set_blocking(terminal, False)
    output = b""
    sent = False
    while True:
        try:
            output += os.read(terminal, 65536)
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:  # the job has closed it
            break
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"no end: {output.decode()}")
        if not sent and steps_logged(directory) >= 3:
            os.write(terminal, b"\x03")  # the terminal sends SIGINT to the foreground group
            sent = True
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert b"Traceback" not in output
    hydra = b"Sending Ctrl-C to processes" in output
    assert status == 130 if hydra else status != 0
    if hydra:
        assert b"with a checkpoint: the same command resumes from there" in output
    require_goes_on(folder, "terminal") if newest(directory) else None


@pytest.fixture(scope="module")
def large(folder: Path) -> Path:
    labels = np.random.default_rng(0).integers(1, 200, (256, 256, 256)).astype(np.uint8)
    data.write_volume(folder / "large.h5", {"labels": labels})
    return folder / "large.h5"


@pytest.mark.parametrize("ranks", [1, 2])
def test_other_commands_end_with_one_line_and_leave_nothing(
    tmp_path: Path, large: Path, ranks: int
) -> None:
    skip_without_mpi()
    program = (
        "import os, sys; from floodtide.cli import main; from floodtide.comm import world; world.current();"
        "open(f'{sys.argv[1]}/pid-{os.getpid()}', 'w').close(); main(sys.argv[2:])"
    )
    out = tmp_path / "out"
    out.mkdir()
    command = ["partition", f"{large}:labels", f"{out}/af.h5:af", "--lom-radius", "16,16,16"]
    rank = [sys.executable, "-c", program, str(tmp_path), *command]
    process = start([str(MPIEXEC), "-n", str(ranks), *rank])
    wait_until(process, lambda: any(out.iterdir()))  # what it writes under another name
    for path in tmp_path.glob("pid-*"):
        os.kill(int(path.name.split("-")[1]), signal.SIGINT)
    status, stderr = finish(process)

    told = [line for line in stderr.splitlines() if "interrupted" in line]
    assert len(told) == 1, stderr
    assert "Traceback" not in stderr
    assert status == 130 or (ranks > 1 and status != 0)
    assert list(out.iterdir()) == []


def test_interrupt_while_notebook_ranks_train_saves(folder: Path) -> None:
    skip_without_mpi()
    path = configuration(folder, "notebook")
    program = f"""
import sys
import floodtide as ft
def train(path):
    from floodtide import config
    from floodtide.train import Trainer
    Trainer.from_config(config.load(path)).run()
try:
    ft.run(train, np=2, args=({path!r},))
except ft.errors.Interrupted as error:
    print(error)
"""
    process = start([sys.executable, "-c", program])
    wait_until(process, lambda: steps_logged(folder / "notebook") >= 3)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=END_S)

    assert process.returncode == 0, stderr
    last = steps_logged(folder / "notebook")
    assert f"run: training stopped at step {last} of {MANY} with a checkpoint" in stdout
    require_goes_on(folder, "notebook")


def test_rank_of_a_notebook_that_others_wait_for_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skip_without_mpi()

    def returns_early() -> None:
        if ft.rank() == 0:
            ft.barrier()

    with pytest.raises(ft.errors.RankError, match="rank 0 ended without a result") as caught:
        ft.run(returns_early, np=2, timeout_s=2)

    assert caught.value.rank == 0
    assert "for rank 1 (has left)" in capsys.readouterr().out


def test_script_ends_with_one_line_and_130(folder: Path) -> None:
    path = configuration(folder, "script")
    out = check(
        1,
        f"""
        import subprocess, sys, time
        from pathlib import Path
        program = "import sys; from floodtide import config; from floodtide.train import Trainer;" \\
            "Trainer.from_config(config.load(sys.argv[1])).run()"
        process = subprocess.Popen([sys.executable, "-c", program, {path!r}], stderr=subprocess.PIPE, text=True)
        log = Path({str(folder / "script" / "log.jsonl")!r})
        while not log.exists() or '"train"' not in log.read_text():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(2)
        print(process.wait(), process.stderr.read())
        """,
        alone=True,
    )

    status, said = out.split(" ", 1)
    lines = [line for line in said.splitlines() if not line.startswith("floodtide: warning: ")]
    assert status == "130"
    assert lines[0].startswith("training stopped at step ")
    assert len(lines) <= 2, out
