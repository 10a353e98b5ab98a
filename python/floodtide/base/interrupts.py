# SPDX-License-Identifier: Apache-2.0
"""Short stretches of work that Ctrl-C must not cut in two."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off Ctrl-C to the end of the block: its handler runs there, and may raise KeyboardInterrupt.

    For blocks of a few system calls. Other threads than the main one get no KeyboardInterrupt: nothing is done there.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])
