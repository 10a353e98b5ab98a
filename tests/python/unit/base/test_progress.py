# SPDX-License-Identifier: Apache-2.0
"""The progress display: its estimate of the time left, and what it leaves on a terminal."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from floodtide.base import progress


def test_work_of_an_earlier_call_does_not_shorten_the_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    display = progress.bar("examples", "sweep")
    display(900, 1000)  # 900 were there before
    now_s = 140.0
    display(920, 1000)
    assert capsys.readouterr().err == "sweep: 920 of 1000 examples, about 160 s left\n"


def test_there_is_no_estimate_before_the_first_work_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    display = progress.bar("examples", "sweep")
    display(900, 1000)
    now_s = 140.0
    display(900, 1000)
    assert capsys.readouterr().err == "sweep: 900 of 1000 examples\n"


def test_a_line_comes_as_often_as_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    with progress.bar("voxels", "segment", line_every_s=10.0) as display:
        display(0, 50)
        now_s = 9.0
        display(3, 50)
        now_s = 10.0
        display(5, 50)
    assert capsys.readouterr().err == "segment: 5 of 50 voxels, about 90 s left\n"


@pytest.mark.parametrize(
    ("seconds", "text"), [(40.4, "40 s"), (180, "180 s"), (720, "12 min"), (11_100, "3 h 05 min")]
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


def test_the_estimate_ends_with_the_time_of_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    display = progress.bar("steps", "train", line_every_s=10.0, at_most_s=lambda: 100.0 - now_s)
    display(0, 1000)
    now_s = 10.0
    display(10, 1000)
    assert capsys.readouterr().err == "train: 10 of 1000 steps, about 90 s left\n"


_SCRIPT = """
import sys
from floodtide.base import notes
from floodtide.base.progress import bar
with bar("steps", "train") as progress:
    for step in range(60):
        progress(step, 60)
        if step % 20 == 0:
            notes.line(f"line {step}")
"""


def _shown(output: bytes) -> list[str]:
    """What stands in the lines of a terminal after an output with carriage returns."""
    lines = []
    for line in output.decode().replace("\r\n", "\n").split("\n"):
        cells: list[str] = []
        for part in line.split("\r"):
            cells[: len(part)] = part
        lines.append("".join(cells).rstrip())
    return [line for line in lines if line]


def test_a_bar_leaves_no_remnants() -> None:
    command = [sys.executable, "-c", _SCRIPT]
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen(command, stderr=terminal, stdout=subprocess.DEVNULL) as process:
        os.close(terminal)
        output = b""
        with contextlib.suppress(OSError):  # Linux: the other end is closed
            while part := os.read(master, 65536):
                output += part
        assert process.wait() == 0
    os.close(master)
    assert b"train:" in output
    assert b"%|" in output
    assert _shown(output) == ["line 0", "line 20", "line 40"]
