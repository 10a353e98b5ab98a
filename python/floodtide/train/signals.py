# SPDX-License-Identifier: Apache-2.0
"""What asks a run to save and stop: Ctrl-C, what batch systems send before a job's time is over, clocks and scripts."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType

from floodtide import _core
from floodtide.comm import world
from floodtide.config.sections import RunConfig

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


class Requests:
    """What this rank asks of all ranks. Requests travel with the gradients, so that all ranks act after the same step.

    Attributes:
        signal: Name of the signal that has come inside a `watched` block, and asks for the end; empty if none has.
        stop: True if a script, or the end of hope, asks for the end.
        rate_factor: The factor that a script asks for; None: no change.
        start_s, logged_s, saved_s: Times of the start, and of the last record and checkpoint, by the steady clock.
    """

    def __init__(self) -> None:
        self.stop = False
        self.rate_factor: float | None = None
        self.restart()

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
            self.signal = signal.Signals(number).name
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

    def restart(self) -> None:
        """Forget the signal that has ended the run, and count all times from now on."""
        self.signal = ""
        self.start_s = self.logged_s = self.saved_s = time.monotonic()

    def bits(self, run: RunConfig, *, decides: bool) -> int:
        """Return the requests for the next step.

        Args:
            run: When records and checkpoints are due, and when the job ends.
            decides: True on the rank whose clock decides.
        """
        bits = 0
        if decides:
            now = time.monotonic()
            if now - self.logged_s >= run.log_every_s:
                bits |= _core.REQUEST_LOG
            if now - self.saved_s >= run.checkpoint_every_s:
                bits |= _core.REQUEST_CHECKPOINT
            if run.stop_after_s and now - self.start_s >= run.stop_after_s:
                bits |= _core.REQUEST_STOP
        if self.signal or self.stop:
            bits |= _core.REQUEST_STOP
        if self.rate_factor is not None:
            bits |= _core.REQUEST_RATE
        return bits

    def agreed_rate_factor(self) -> float | None:
        """Return the factor that the lowest rank has asked for, and forget this rank's. Collective.

        None if no rank has asked: ranks that do not wait for each other may have learnt of it twice.
        """
        own = "" if self.rate_factor is None else repr(self.rate_factor)
        self.rate_factor = None
        asked = next(filter(None, world.current().allgather(own.encode())), None)
        return None if asked is None else float(asked)
