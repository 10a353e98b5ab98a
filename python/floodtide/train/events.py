# SPDX-License-Identifier: Apache-2.0
"""TensorBoard events, written by the caller's thread.

SummaryWriter of tensorboardX writes events in a separate thread. If a full disk ends that thread, its queue fills, and
the training waits for ever. EventFile therefore writes in the caller's thread.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FLUSH_S = 10.0


class EventFile:
    """An event file in a run directory. All methods raise OSError if the file cannot be written.

    Args:
        folder: The folder of the file. The name is one that TensorBoard looks for.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboardX.event_file_writer import EventsWriter

        self._writer: Any = EventsWriter(str(folder / "events"))
        self._flushed_s = time.monotonic()
        # Wall time of the steady clock's zero: event times stay in order when somebody sets the clock.
        self._begin_s = time.time() - self._flushed_s
        _open.add(self)

    def add(self, scalars: Iterable[tuple[str, float]], step: int) -> None:
        """Append named numbers. They are on disk when the first call ten seconds later, or `close`, has returned."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        wall_s = self._begin_s + time.monotonic()
        for name, value in scalars:
            self._writer.write_event(
                Event(wall_time=wall_s, step=step, summary=scalar(name, value))
            )
        if time.monotonic() - self._flushed_s >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write everything to disk."""
        self._writer.flush()
        self._flushed_s = time.monotonic()

    def close(self) -> None:
        """Write everything to disk and close the file."""
        _open.discard(self)
        self._writer.close()


_open: weakref.WeakSet[EventFile] = weakref.WeakSet()


def _before_fork() -> None:
    """Empty all buffers: a child process would write its copy of a buffer when it ends."""
    for file in _open:
        with contextlib.suppress(OSError):  # the next `add` reports a full disk
            file.flush()


os.register_at_fork(before=_before_fork)
