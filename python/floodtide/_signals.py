# SPDX-License-Identifier: Apache-2.0
"""Signals that ask a run to save and stop: batch systems and launchers send them before a job's time is over."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

# srun passes SIGTERM on to its ranks; some versions of mpiexec kill the ranks seconds after it, but hand SIGUSR1 on.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """Whether one of STOP_SIGNALS has come while `watched` was in force."""

    def __init__(self) -> None:
        self.name = ""
        """Name of the signal that has come, empty if none has."""

    def __bool__(self) -> bool:
        return bool(self.name)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Note the first signal instead of dying of it; the second one does what it did before.

        Does nothing outside the main thread, which alone may set handlers, and leaves signals alone that are
        ignored.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: handler
            for number in STOP_SIGNALS
            if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
        }

        def note(number: int, _: FrameType | None) -> None:
            self.name = signal.Signals(number).name
            restore()

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        for number in before:
            signal.signal(number, note)
        try:
            yield
        finally:
            restore()
