# SPDX-License-Identifier: Apache-2.0
"""Locks: one owner at a time, taken over from owners that are gone, on file systems with and without kernel locks."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from floodtide import errors
from floodtide.base import locks
from floodtide.base.locks import Owner, parse, take

HOLDER = """
import sys, time
from pathlib import Path
from floodtide.base.locks import take
lock = take(Path(sys.argv[1]), "it", "wait")
print("taken", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.lock"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lock."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    yield process
    process.kill()
    process.communicate()


def get(path: Path, **options: float) -> locks.Lock:
    return take(path, "the run directory x", "give this run another run.dir", **options)


def edited(path: Path, **fields: object) -> None:
    """Let the lock file say something else about its owner."""
    owner = dataclasses.replace(parse(path.read_bytes()), **fields)  # type: ignore[arg-type]
    path.write_text(owner.text())


def another_host(path: Path, *, expired: bool = False) -> None:
    """A lock file of a process on another host; no lock of the kernel's is on it."""
    lock = get(path)
    text = dataclasses.replace(parse(path.read_bytes()), host="far", boot="another").text()
    lock.release()
    path.write_text(text)
    if expired:
        os.utime(path, (1e9, 1e9))


def test_the_owner_is_named_and_the_file_is_gone_afterwards(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(errors.LockedError) as caught:
        get(path)
    said = str(caught.value)
    assert f"the run directory x is in use by process {holder.pid} on host " in said
    assert " UTC (-c " in said
    assert said.endswith("give this run another run.dir")
    assert [p.name for p in path.parent.iterdir()] == ["run.lock"]
    holder.kill()
    holder.wait()
    lock = get(path)
    assert lock.held
    lock.release()
    lock.release()
    assert not lock.held
    assert not list(path.parent.iterdir())


def test_an_owner_that_was_killed_is_replaced_at_once(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # a zombie, as under a slow launcher
    begin = time.monotonic()
    assert get(path).held
    assert time.monotonic() - begin < 1.0


def test_a_stopped_owner_is_there(path: Path, holder: subprocess.Popen[str]) -> None:
    os.kill(holder.pid, signal.SIGSTOP)
    os.utime(path, (0, 0))
    with pytest.raises(errors.LockedError):
        get(path)


def test_an_owner_is_waited_for_if_asked(path: Path, holder: subprocess.Popen[str]) -> None:
    threading.Timer(0.3, holder.kill).start()
    assert get(path, wait_s=20.0).held


def test_this_process_takes_over(path: Path) -> None:
    first = get(path)
    second = get(path)
    assert second.held
    assert not first.held
    first.release()
    assert second.held


def test_a_process_that_is_about_to_end_releases_all_locks(path: Path) -> None:
    lock = get(path)
    locks.release_all()
    assert not path.exists()
    assert not lock.held


def test_a_lock_that_nobody_refers_to_is_released(path: Path) -> None:
    get(path)
    assert not path.exists()


def test_a_fork_neither_keeps_nor_releases_its_parents_lock(path: Path) -> None:
    forking = "import os\nif os.fork() == 0: print(os.getpid(), flush=True)"
    script = HOLDER.replace('print("taken", flush=True)', forking)
    command = [sys.executable, "-c", script, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        with pytest.raises(errors.LockedError):
            get(path)
        process.kill()
        process.wait()
        os.kill(child, 0)
        assert get(path).held
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("name", ["_open", "_lock", "_is_file", "_write_owner"])
def test_an_interrupt_while_a_lock_is_taken_leaves_no_file(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is aborted then, as Ctrl-C does with several ranks, has no other moment to remove it."""
    real = getattr(locks, name)

    def interrupted(*arguments: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(locks, name, interrupted)
    with pytest.raises(KeyboardInterrupt) as held:
        get(path)
    assert not list(path.parent.iterdir())
    assert held.tb is not None  # and with it all that the call referred to


def test_many_at_once_have_one_owner(path: Path) -> None:
    """Also after an owner that was killed; the losers say who it is."""
    another_host(path, expired=True)
    command = [sys.executable, "-c", HOLDER, str(path)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(5)
    ]
    deadline = time.monotonic() + 60
    while sum(process.poll() is None for process in started) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    owners = [process for process in started if process.poll() is None]
    assert len(owners) == 1
    assert parse(path.read_bytes()).process == owners[0].pid
    owners[0].kill()
    for process in started:
        _, said = process.communicate()
        assert process is owners[0] or "LockedError: it is " in said.splitlines()[-1]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short times."""
    monkeypatch.setattr(locks, "EXPIRY_S", 0.3)
    monkeypatch.setattr(locks, "_LOOK_S", 0.05)


@pytest.mark.usefixtures("soon")
def test_the_time_stamp_decides_about_another_host(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    another_host(path)
    begin = time.monotonic()
    assert get(path).held
    assert 0.2 < time.monotonic() - begin < 5.0
    said = capsys.readouterr().err
    assert "was in use by process" in said
    assert f"remove {path}" in said


@pytest.mark.usefixtures("soon")
def test_a_renewed_time_stamp_is_an_owners(path: Path) -> None:
    another_host(path)
    threading.Timer(0.15, lambda: os.utime(path)).start()
    with pytest.raises(errors.LockedError, match="on host far since"):
        get(path)


@pytest.mark.usefixtures("soon")
def test_an_old_time_stamp_is_compared_with_the_file_systems_clock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another_host(path, expired=True)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    begin = time.monotonic()
    assert get(path).held
    assert time.monotonic() - begin < 0.6


@pytest.mark.usefixtures("soon")
def test_without_kernel_locks_the_time_stamp_decides(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_lock", lambda descriptor: None)
    get(path.with_name("new.lock")).release()
    owner = Owner(host="here", boot=locks._boot(), process=os.getpid(), token="another")
    path.write_text(owner.text())
    timer = threading.Timer(0.15, lambda: os.utime(path))
    timer.start()
    with pytest.raises(errors.LockedError, match="on host here since"):
        get(path)
    timer.join()
    assert get(path).held  # after the time stamp has expired


def test_time_stamps_are_renewed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "RENEW_S", 0.05)
    monkeypatch.setattr(locks, "_thread", None)
    lock = get(path)
    os.utime(path, (0, 0))
    deadline = time.monotonic() + 10
    while path.stat().st_mtime == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.stat().st_mtime > 0
    lock.release()


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[1]", '{"host": 3}', "\xff\0", "[" * 100000, json.dumps({"token": 1})],
)
def test_a_lock_file_that_cannot_be_read_is_one_without_owner(path: Path, text: str) -> None:
    path.write_text(text, encoding="latin-1")
    assert parse(path.read_bytes()) == Owner()
    assert get(path).held


def test_a_link_in_the_place_of_the_lock_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.symlink_to(victim)
    with pytest.raises(errors.StorageError, match="is not a regular file"):
        get(path)
    assert victim.read_text() == "precious"


def test_an_owner_that_was_replaced_does_not_remove_the_lock(path: Path) -> None:
    """As on a file system without kernel locks, after this host could not renew the time stamp."""
    lock = get(path)
    edited(path, token="another")
    assert not lock.held
    lock.release()
    assert path.exists()
