# SPDX-License-Identifier: Apache-2.0
"""Signals that ask a run to save and stop: Ctrl-C, and what batch systems send before a job's time is over."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType

from floodtide import _core

# srun passes SIGTERM on to its ranks; some versions of mpiexec kill the ranks seconds after it, but hand SIGUSR1 on.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
INTERRUPT = signal.SIGINT.name

_texts: ContextVar[tuple[str, str] | None] = ContextVar("texts", default=None)


@contextlib.contextmanager
def second_interrupt_exits(first: str, second: str) -> Iterator[None]:
    """Inside the block, let a second Ctrl-C end this process at once with status 130. For programs, not notebooks.

    Args:
        first: Text for standard error at the first Ctrl-C, which asks for the end; may be empty.
        second: Text for standard error at the second Ctrl-C.
    """
    token = _texts.set((first, second))
    try:
        yield
    finally:
        _texts.reset(token)


class StopRequest:
    """True once one of STOP_SIGNALS has come inside a `watched` block."""

    def __init__(self) -> None:
        self.name = ""
        """Name of the signal that has come; empty if none has."""

    def __bool__(self) -> bool:
        return bool(self.name)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Inside the block, record the first signal instead of ending the process. A second one acts as usual.

        Signals that were ignored stay ignored. Only the main thread may set handlers: elsewhere this does nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: handler
            for number in STOP_SIGNALS
            if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
        }
        texts = _texts.get()
        counts = texts is not None and signal.SIGINT in before

        def note(number: int, _: FrameType | None) -> None:
            self.name = signal.Signals(number).name
            for other in before:
                # Python calls handlers between two of its own instructions; a step may take minutes.
                if not (counts and other == signal.SIGINT):
                    signal.signal(other, before[other])

        for number in before:
            signal.signal(number, note)
        if texts is not None and counts:
            _core.count_interrupts(*texts)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)  # ends counting, too
