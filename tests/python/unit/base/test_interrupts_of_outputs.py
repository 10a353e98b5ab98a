# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at every line of the code that takes an output and gives it back."""

from __future__ import annotations

import linecache
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from floodtide.base import interrupts, locks, outputs
from floodtide.base.interrupts import uninterrupted
from floodtide.base.outputs import LOCK_SUFFIX, reserved, unchecked

FILES = {locks.__file__, outputs.__file__, interrupts.__file__}


def interrupted_at(line: int, work: Callable[[], None]) -> bool:
    """Run `work` and send SIGINT before the given line of FILES is run; True if the work ended without an interrupt."""
    seen = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line" and not is_with(frame):
            seen += 1
            if seen == line:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        outputs.give_back_all()  # as the command line does
        return False
    finally:
        sys.settrace(None)
    return seen < line


def is_with(frame: FrameType) -> bool:
    """True at a `with` statement. Python looks for signals after `__exit__`, but calls the trace function before it."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.lstrip().startswith("with ")


@pytest.fixture(autouse=True)
def default_handler() -> Any:
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def test_an_interrupt_at_any_line_leaves_no_lock(tmp_path: Path) -> None:
    def work() -> None:
        with reserved("test", tmp_path / "out.h5", unchecked):
            pass

    line = 1
    while not interrupted_at(line, work):
        # An interrupt in the clean-up of a temporary file may leave that file: the next process removes it.
        assert [p.name for p in tmp_path.iterdir() if p.name.endswith(LOCK_SUFFIX)] == [], line
        work()
        assert list(tmp_path.iterdir()) == [], line
        line += 1
        assert line < 2000
    assert line > 50  # it has looked at the code


def test_an_interrupt_is_put_off_to_the_end_of_the_block() -> None:
    reached = []

    def work() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            reached.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_interrupt_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
